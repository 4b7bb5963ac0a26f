-- stamp: somebody is there, and looks after the space.
--
-- Keys  none
-- Answers  until when a hold runs (0: none does), and the store's time
return finish(each(function()
  return { is_held and hold_ms or 0, clock_ms }
end, 1, 0, COMMON))
