-- stamp: somebody is there, and looks after the space.
--
-- Keys  none
-- Answers  until when a hold runs (0: none does), the store's time, and why it took no stamp
--          (empty: it did)
return finish(each(function()
  return { is_held and hold_ms or 0, clock_ms, refusal }
end, 1, 0, SHARED_KEYS))
