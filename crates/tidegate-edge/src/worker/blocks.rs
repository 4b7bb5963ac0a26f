//! Permits of rules with only so many clicks: blocks that were debited at the truth before they came, spent here without
//! asking, and given back.
//!
//! Nothing is redirected without a permit of a block that has not ended. A block ends on this worker's clock, counted from
//! before it was asked for and less a margin; what of it was not spent is given back, once it was idle for a second or has
//! ended. A block that cannot be given back counts as spent, at the truth.
//!
//! A permit is of one rule and not of another that has its id later: both are told apart by when they were made, which
//! who asks knows by what it answers with, and the truth says with what it grants.
//!
//! Others hold what is left only if nothing of it is here: whoever is told to wait gives back first what is over here, and
//! asks once more.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::looks::Looks;
use crate::truth::{Grant, Granted, Return};

/// A block that nobody spends goes back after this.
const IDLE_MS: u64 = 1000;

/// Of a block's life, what is left of it when no more is spent: clocks differ.
const MARGIN: u64 = 10;

/// Permits that are asked for at first, and at most.
const FIRST: u64 = 16;
const MOST: u64 = 4096;

/// Rules that permits are held of or were asked for, at most.
const MAX_RULES: usize = 65_536;

/// Rules that are looked at to make room for another.
const LOOKED_AT: usize = 64;

/// Blocks that could not be given back yet, at most.
const MAX_RETURNS: usize = 65_536;

/// For how long a rule is taken for spent without asking again: only a change of it makes it otherwise.
const SPENT_MS: u64 = 60_000;

/// What a request for a permit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It may redirect. `is_low`: another block should be asked for.
    Granted { is_low: bool },
    /// There is none here: ask.
    None,
    /// There is none anywhere now.
    Wait(Duration),
    /// There is none any more.
    Spent,
}

/// A block.
#[derive(Debug)]
struct Block {
    number: u64,
    /// When its rule was made.
    created_at: u64,
    permits: u64,
    spent: u64,
    ends_ms: u64,
    used_ms: u64,
}

impl Block {
    fn is_over(&self, elapsed_ms: u64) -> bool {
        self.spent == self.permits || elapsed_ms >= self.ends_ms
    }

    fn due(&self, rule: &str) -> Due {
        Due { rule: rule.into(), number: self.number, spent: self.spent, is_rest: self.spent < self.permits }
    }
}

/// Somebody asks the truth for a block.
#[derive(Debug)]
struct Underway {
    /// By which number.
    number: u64,
    /// Changes when that is over.
    ends: watch::Sender<()>,
    /// The rule was changed since: that nothing is left may have been said before.
    is_changed: bool,
}

#[derive(Debug, Default)]
struct OfRule {
    blocks: VecDeque<Block>,
    /// How many to ask for next.
    wanted: u64,
    /// Somebody asks.
    asking: Option<Underway>,
    /// Until when nothing is to be had, whether for good, and when the rule was made of which that was said.
    nothing_until_ms: u64,
    is_spent: bool,
    said_of: u64,
}

impl OfRule {
    /// Until when nothing is to be had of the rule that was made then.
    fn nothing_until_ms(&self, created_at: u64) -> u64 {
        if self.said_of == created_at { self.nothing_until_ms } else { 0 }
    }

    /// Whether nothing is lost if it is forgotten but that it was asked for.
    fn holds_nothing(&self) -> bool {
        self.blocks.is_empty() && self.asking.is_none()
    }

    fn is_asking(&self, number: u64) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.number == number)
    }

    /// What there is to say while no permit is here.
    fn without_permits(&self, created_at: u64, elapsed_ms: u64) -> Permit {
        match self.nothing_until_ms(created_at).saturating_sub(elapsed_ms) {
            0 => Permit::None,
            _ if self.is_spent => Permit::Spent,
            // Told of first, they may be all that was left.
            _ if !self.blocks.is_empty() => Permit::None,
            left => Permit::Wait(Duration::from_millis(left)),
        }
    }
}

/// A block that is to be given back.
#[derive(Debug)]
struct Due {
    rule: Box<str>,
    number: u64,
    spent: u64,
    /// Whether some of it may not have been spent.
    is_rest: bool,
}

#[derive(Debug, Default)]
struct All {
    /// Of which time of the database they are.
    epoch: Option<String>,
    rules: HashMap<Box<str>, OfRule>,
    returns: VecDeque<Due>,
    /// Rules of which was said that nothing is left, the oldest first: they make room for others.
    over: VecDeque<Box<str>>,
    looks: Looks,
    number: u64,
    is_closed: bool,
}

impl All {
    fn give_back(&mut self, due: Due) {
        if self.returns.len() < MAX_RETURNS {
            self.returns.push_back(due);
        }
    }

    /// Whether there is room for one more rule, if need be in the place of one that nothing is left of.
    fn makes_room(&mut self) -> bool {
        if self.rules.len() < MAX_RULES {
            return true;
        }
        for _ in 0..LOOKED_AT.min(self.over.len()) {
            let Some(rule) = self.over.pop_front() else { break };
            match self.rules.get(&rule) {
                Some(own) if own.holds_nothing() => {
                    self.rules.remove(&rule);
                    return true;
                }
                // What it has spent is to be told of first.
                Some(own) if own.nothing_until_ms > 0 => self.over.push_back(rule),
                _ => {}
            }
        }
        false
    }

    /// Notes that nothing is left of a rule.
    fn is_over(&mut self, rule: &str) {
        if self.over.len() >= MAX_RULES {
            self.over.pop_front();
        }
        self.over.push_back(rule.into());
    }

    /// A rule has no permits any more: those that are here go back.
    fn remove(&mut self, rule: &str) {
        let Some(own) = self.rules.remove(rule) else { return };
        for block in own.blocks {
            self.give_back(block.due(rule));
        }
    }
}

/// All permits that are here.
#[derive(Debug)]
pub(crate) struct Blocks {
    all: Mutex<All>,
    worker: String,
}

/// What the truth has said to who asked for permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is known now whether there are some.
    Something,
    /// That the rule is not there, has no bound, or is another one.
    Otherwise,
    /// Nothing.
    Nothing,
}

/// Who asks for a block.
#[derive(Debug)]
pub(crate) enum Asking {
    /// This one does: for so many, by this number.
    Ask { number: u64, wanted: u64 },
    /// Another does: wait for it.
    Wait(watch::Receiver<()>),
    /// Nobody can: there are too many rules with permits, or this worker ends.
    Full,
}

impl Blocks {
    /// `first` is higher than any number that a worker of this name has used before.
    pub(crate) fn new(worker: String, first: u64) -> Self {
        Self { all: Mutex::new(All { number: first, ..All::default() }), worker }
    }

    /// Takes a permit of the rule that was made then, if one is here.
    pub(crate) fn spend(&self, rule: &str, created_at: u64, elapsed_ms: u64) -> Permit {
        let mut all = self.all.lock();
        let Some(own) = all.rules.get_mut(rule) else { return Permit::None };
        let left = |block: &Block| block.permits - block.spent;
        let has_some = |block: &&Block| block.created_at == created_at && !block.is_over(elapsed_ms);
        let total: u64 = own.blocks.iter().filter(has_some).map(left).sum();
        let (asked, nothing_until_ms) = (own.wanted, own.nothing_until_ms(created_at));
        let Some(block) = own.blocks.iter_mut().find(|it| has_some(&&**it)) else {
            return own.without_permits(created_at, elapsed_ms);
        };
        block.spent += 1;
        block.used_ms = elapsed_ms;
        let is_low = total <= asked / 4 && own.asking.is_none() && elapsed_ms >= nothing_until_ms;
        Permit::Granted { is_low }
    }

    /// What [`spend`](Self::spend) would come to, as far as that is known, without taking one.
    pub(crate) fn peek(&self, rule: &str, created_at: u64, elapsed_ms: u64) -> Permit {
        let all = self.all.lock();
        let own = all.rules.get(rule);
        let is_left = |block: &Block| block.created_at == created_at && !block.is_over(elapsed_ms);
        if own.is_some_and(|own| own.blocks.iter().any(is_left)) {
            return Permit::Granted { is_low: false };
        }
        match own.map_or(Permit::None, |own| own.without_permits(created_at, elapsed_ms)) {
            Permit::None => match all.looks.is_spent(rule, created_at, elapsed_ms) {
                None => Permit::None,
                Some(true) => Permit::Spent,
                Some(false) => Permit::Granted { is_low: false },
            },
            known => known,
        }
    }

    /// The truth has said to who only looked whether a rule that was made then is spent.
    pub(crate) fn looked(&self, rule: &str, created_at: u64, is_spent: bool, elapsed_ms: u64) {
        self.all.lock().looks.note(rule, created_at, is_spent, elapsed_ms);
    }

    /// Who asks the truth for a block.
    pub(crate) fn ask(&self, rule: &str) -> Asking {
        let mut all = self.all.lock();
        let all = &mut *all;
        if all.is_closed || !all.rules.contains_key(rule) && !all.makes_room() {
            return Asking::Full;
        }
        let own = all.rules.entry(rule.into()).or_default();
        if let Some(asking) = &own.asking {
            return Asking::Wait(asking.ends.subscribe());
        }
        let number = all.number;
        all.number += 1;
        own.asking = Some(Underway { number, ends: watch::Sender::new(()), is_changed: false });
        own.wanted = (own.wanted * 2).clamp(FIRST, MOST);
        Asking::Ask { number, wanted: own.wanted }
    }

    /// What the truth has said to who asked at `asked_ms`. None if it has said nothing: it may have granted something.
    /// Who asked did so for the rule that was made then.
    pub(crate) fn asked(
        &self,
        (rule, created_at): (&str, u64),
        number: u64,
        asked_ms: u64,
        elapsed_ms: u64,
        granted: Option<&Granted>,
    ) -> Asked {
        let mut all = self.all.lock();
        let all = &mut *all;
        let due = Due { rule: rule.into(), number, spent: 0, is_rest: true };
        let Some(own) = all.rules.get_mut(rule).filter(|own| own.is_asking(number)) else {
            // The rule was deleted meanwhile, and its blocks with it. It may be another one of that name by now.
            if matches!(granted.map(|it| &it.grant), None | Some(Grant::Block { .. })) {
                all.give_back(due);
            }
            return Asked::Something;
        };
        let is_changed = own.asking.take().is_some_and(|asking| asking.is_changed);
        let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        (own.is_spent, own.nothing_until_ms) = (false, 0);
        let Some(Granted { grant, created_at: of }) = granted else {
            // What was granted and not heard of is given back unspent: by its number the truth knows it.
            all.give_back(due);
            return Asked::Nothing;
        };
        // Who does not say it is believed to mean the rule that was asked for.
        let of = of.unwrap_or(created_at);
        match grant {
            Grant::Block { epoch, .. } if all.epoch.get_or_insert_with(|| epoch.clone()) != epoch => {
                all.give_back(due);
                return Asked::Nothing;
            }
            Grant::Block { permits, life, .. } => {
                let life_ms = millis(life);
                let ends_ms = if all.is_closed { 0 } else { asked_ms + life_ms - life_ms.div_ceil(MARGIN) };
                own.blocks.push_back(Block {
                    number,
                    created_at: of,
                    permits: *permits,
                    spent: 0,
                    ends_ms,
                    used_ms: elapsed_ms,
                });
            }
            // It may have been said before the change: it is asked again.
            Grant::Wait { .. } | Grant::Spent if is_changed => {}
            Grant::Wait { retry_after } => {
                (own.nothing_until_ms, own.said_of) = (elapsed_ms + millis(retry_after), of);
                all.is_over(rule);
            }
            Grant::Spent => {
                (own.is_spent, own.nothing_until_ms, own.said_of) = (true, elapsed_ms + SPENT_MS, of);
                all.is_over(rule);
            }
            _ => {
                all.remove(rule);
                return Asked::Otherwise;
            }
        }
        if of == created_at { Asked::Something } else { Asked::Otherwise }
    }

    /// A rule was changed: what was said of its permits may not be so any more. Blocks stay.
    pub(crate) fn changed(&self, rule: &str) {
        let mut all = self.all.lock();
        all.looks.forget(rule);
        if let Some(own) = all.rules.get_mut(rule) {
            (own.is_spent, own.nothing_until_ms) = (false, 0);
            if let Some(asking) = &mut own.asking {
                asking.is_changed = true;
            }
        }
    }

    /// A rule is gone, and its permits with it. Another one of that name may have granted them already: they go back.
    pub(crate) fn deleted(&self, rule: &str) {
        self.all.lock().remove(rule);
    }

    /// All rules were read anew, of that time of the database. If it may have gone back, no block counts any more; it may
    /// have without saying so, so all others go back to it, and those that it knows of count.
    pub(crate) fn reloaded(&self, epoch: &str) {
        let mut all = self.all.lock();
        let rules = std::mem::take(&mut all.rules);
        all.over.clear();
        all.looks.clear();
        if all.epoch.as_deref().is_some_and(|own| own != epoch) {
            all.returns.clear();
        } else {
            for (rule, own) in rules {
                own.blocks.iter().for_each(|block| all.give_back(block.due(&rule)));
            }
        }
        all.epoch = Some(epoch.to_owned());
    }

    /// No more is spent from now on: all blocks are to be given back.
    pub(crate) fn close(&self) {
        let mut all = self.all.lock();
        all.is_closed = true;
        for block in all.rules.values_mut().flat_map(|own| &mut own.blocks) {
            block.ends_ms = 0;
        }
    }

    /// Blocks that are to be given back now, of a rule or of all, at most so many. Those that
    /// [were](Self::returned) are not told of again.
    pub(crate) fn due_returns(&self, of: Option<&str>, elapsed_ms: u64, limit: usize) -> Vec<Return> {
        let mut all = self.all.lock();
        let All { rules, returns, .. } = &mut *all;
        let mut gather = |rule: &str, own: &mut OfRule| {
            own.blocks.retain(|block| {
                let is_idle = elapsed_ms.saturating_sub(block.used_ms) >= IDLE_MS;
                let is_kept = !block.is_over(elapsed_ms) && !is_idle || returns.len() >= MAX_RETURNS;
                if !is_kept {
                    returns.push_back(block.due(rule));
                }
                is_kept
            });
            !own.blocks.is_empty() || own.asking.is_some() || elapsed_ms < own.nothing_until_ms
        };
        match of {
            Some(rule) => drop(rules.get_mut(rule).map(|own| gather(rule, own))),
            None => rules.retain(|rule, own| gather(rule, own)),
        }
        let is_of = |due: &&Due| of.is_none_or(|rule| *due.rule == *rule);
        let back = |due: &Due| Return { worker: self.worker.clone(), number: due.number, spent: due.spent };
        all.returns.iter().filter(is_of).take(limit).map(back).collect()
    }

    /// A block was given back. What was said of its rule may not be so any more.
    pub(crate) fn returned(&self, number: u64) {
        let mut all = self.all.lock();
        let Some(at) = all.returns.iter().position(|due| due.number == number) else { return };
        let Some(due) = all.returns.remove(at) else { return };
        all.looks.forget(&due.rule);
        if let Some(own) = all.rules.get_mut(&due.rule)
            && (due.is_rest || !own.is_spent)
        {
            (own.is_spent, own.nothing_until_ms) = (false, 0);
        }
    }

    /// Whether some are to be given back yet, once all were [closed](Self::close).
    pub(crate) fn has_returns(&self) -> bool {
        let all = self.all.lock();
        !all.returns.is_empty() || all.rules.values().any(|own| !own.blocks.is_empty())
    }

    pub(crate) fn bytes(&self) -> usize {
        let all = self.all.lock();
        let of_rule = size_of::<(Box<str>, OfRule)>() + 64 + 2 * size_of::<Block>();
        all.rules.len() * of_rule
            + all.looks.bytes()
            + all.over.len() * 32
            + all.over.capacity() * size_of::<Box<str>>()
            + all.returns.capacity() * (size_of::<Due>() + 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(permits: u64, life_ms: u64) -> Grant {
        Grant::Block { permits, life: Duration::from_millis(life_ms), epoch: String::new() }
    }

    fn ask(blocks: &Blocks, rule: &str) -> u64 {
        let Asking::Ask { number, .. } = blocks.ask(rule) else { panic!("nobody asks") };
        number
    }

    fn asked(
        blocks: &Blocks,
        rule: &str,
        number: u64,
        asked_ms: u64,
        elapsed_ms: u64,
        grant: Option<Grant>,
    ) -> Asked {
        let granted = grant.map(|grant| Granted { grant, created_at: Some(0) });
        blocks.asked((rule, 0), number, asked_ms, elapsed_ms, granted.as_ref())
    }

    #[test]
    fn permits_are_spent_until_their_block_ends_and_the_rest_goes_back() {
        let blocks = Blocks::new("w".to_owned(), 7);
        assert_eq!(blocks.spend("a", 0, 0), Permit::None);
        let number = ask(&blocks, "a");
        assert!(matches!(blocks.ask("a"), Asking::Wait(_)), "one asks");
        asked(&blocks, "a", number, 100, 150, Some(block(3, 1000)));
        assert!(matches!(blocks.spend("a", 0, 150), Permit::Granted { .. }));
        assert!(matches!(blocks.spend("a", 0, 999), Permit::Granted { .. }));
        assert_eq!(
            blocks.spend("a", 0, 1000),
            Permit::None,
            "counted from before it was asked for, less a tenth"
        );
        let back = [Return { worker: "w".to_owned(), number: 7, spent: 2 }];
        assert_eq!(blocks.due_returns(None, 1000, 10), back);
        assert_eq!(blocks.due_returns(Some("a"), 1000, 10), back, "until that was heard of");
        assert_eq!(blocks.due_returns(Some("b"), 1000, 10), []);
        blocks.returned(7);
        assert_eq!(blocks.due_returns(None, 1000, 10), [], "once");
    }

    #[test]
    fn idle_blocks_go_back_after_a_second() {
        let blocks = Blocks::new("w".to_owned(), 1);
        let number = ask(&blocks, "a");
        asked(&blocks, "a", number, 0, 0, Some(block(10, 60_000)));
        assert_eq!(blocks.due_returns(None, 999, 10), []);
        assert!(matches!(blocks.spend("a", 0, 999), Permit::Granted { .. }));
        assert_eq!(blocks.due_returns(None, 1998, 10), []);
        assert_eq!(blocks.due_returns(None, 1999, 10).len(), 1);
        assert_eq!(blocks.spend("a", 0, 1999), Permit::None, "what went back is not spent");
    }

    #[test]
    fn who_has_heard_nothing_gives_back_what_may_have_been_granted() {
        let blocks = Blocks::new("w".to_owned(), 1);
        let number = ask(&blocks, "a");
        asked(&blocks, "a", number, 0, 5, None);
        assert_eq!(blocks.due_returns(None, 5, 10), [Return { worker: "w".to_owned(), number, spent: 0 }]);
    }

    #[test]
    fn spent_is_spent_until_the_rule_changes() {
        let blocks = Blocks::new("w".to_owned(), 1);
        let number = ask(&blocks, "a");
        asked(&blocks, "a", number, 0, 0, Some(Grant::Spent));
        assert_eq!(blocks.spend("a", 0, 10), Permit::Spent);
        assert_eq!(blocks.peek("a", 0, 10), Permit::Spent);
        blocks.changed("a");
        assert_eq!(blocks.spend("a", 0, 10), Permit::None);
        let number = ask(&blocks, "a");
        asked(&blocks, "a", number, 10, 10, Some(Grant::Wait { retry_after: Duration::from_millis(50) }));
        assert_eq!(blocks.spend("a", 0, 20), Permit::Wait(Duration::from_millis(40)));
        assert_eq!(blocks.spend("a", 0, 60), Permit::None);
    }

    /// Only what others hold is waited for: what was spent here is told of first.
    #[test]
    fn who_has_spent_the_last_ones_asks_before_it_tells_others_to_wait() {
        let blocks = Blocks::new("w".to_owned(), 1);
        let wait = Grant::Wait { retry_after: Duration::from_millis(1000) };
        let first = ask(&blocks, "a");
        asked(&blocks, "a", first, 0, 0, Some(block(1, 60_000)));
        // Others hold the rest, as far as the truth knows: that is what is still here.
        let second = ask(&blocks, "a");
        asked(&blocks, "a", second, 0, 0, Some(wait));
        assert!(matches!(blocks.spend("a", 0, 1), Permit::Granted { .. }));
        assert_eq!(blocks.spend("a", 0, 2), Permit::None, "it is to be given back, and asked for again");
        assert_eq!(blocks.due_returns(Some("a"), 2, 10).len(), 1);
        assert_eq!(blocks.spend("a", 0, 2), Permit::Wait(Duration::from_millis(998)), "nothing is here");
        blocks.returned(first);
        assert_eq!(blocks.spend("a", 0, 2), Permit::None, "it may be spent for good now");
    }

    /// What was debited of a rule that is no more, or in a database that has gone back, is nobody's to spend.
    #[test]
    fn blocks_of_another_rule_or_another_time_are_not_spent() {
        let blocks = Blocks::new("w".to_owned(), 1);
        blocks.reloaded("");
        let old = ask(&blocks, "a");
        blocks.deleted("a");
        let new = ask(&blocks, "a");
        assert_eq!(asked(&blocks, "a", old, 0, 0, Some(block(5, 60_000))), Asked::Something);
        assert_eq!(blocks.spend("a", 0, 1), Permit::None);
        assert!(matches!(blocks.ask("a"), Asking::Wait(_)), "the new one is asked for yet");
        assert_eq!(blocks.due_returns(None, 1, 10)[0].number, old);
        assert_eq!(asked(&blocks, "a", new, 0, 0, Some(block(1, 60_000))), Asked::Something);
        assert!(matches!(blocks.spend("a", 0, 1), Permit::Granted { .. }));
        let late = ask(&blocks, "a");
        blocks.reloaded("restored");
        assert_eq!(blocks.spend("a", 0, 1), Permit::None);
        let newest = ask(&blocks, "a");
        assert_eq!(asked(&blocks, "a", late, 0, 0, Some(block(5, 60_000))), Asked::Something);
        let before = asked(&blocks, "a", newest, 0, 0, Some(block(5, 60_000)));
        assert_eq!(before, Asked::Nothing, "it is of the time before");
        assert_eq!(blocks.spend("a", 0, 1), Permit::None);
    }

    #[test]
    fn after_the_end_nothing_is_spent_and_a_late_block_goes_back() {
        let blocks = Blocks::new("w".to_owned(), 1);
        let (first, second) = (ask(&blocks, "a"), ask(&blocks, "b"));
        asked(&blocks, "a", first, 0, 0, Some(block(5, 60_000)));
        blocks.close();
        assert_eq!(blocks.spend("a", 0, 1), Permit::None);
        asked(&blocks, "b", second, 0, 1, Some(block(5, 60_000)));
        assert_eq!(blocks.spend("b", 0, 1), Permit::None);
        assert_eq!(blocks.due_returns(None, 1, 10).len(), 2);
        assert!(matches!(blocks.ask("a"), Asking::Full));
    }
    /// A rule that is spent holds nothing: those that live can be asked for, however many are.
    #[test]
    fn rules_that_are_spent_make_room_for_others_the_oldest_first() {
        let blocks = Blocks::new("w".to_owned(), 1);
        for rule in 0..MAX_RULES + 3 {
            let rule = rule.to_string();
            let number = ask(&blocks, &rule);
            asked(&blocks, &rule, number, 0, 0, Some(Grant::Spent));
        }
        let seen = ["2", "3"].map(|rule| blocks.peek(rule, 0, 1));
        assert_eq!(seen, [Permit::None, Permit::Spent], "the oldest have left");
        assert_eq!(blocks.all.lock().rules.len(), MAX_RULES);
        // Those that hold something stay.
        let number = ask(&blocks, "live");
        asked(&blocks, "live", number, 0, 0, Some(block(5, 60_000)));
        for rule in 0..MAX_RULES {
            let rule = format!("also {rule}");
            let number = ask(&blocks, &rule);
            asked(&blocks, &rule, number, 0, 0, Some(Grant::Spent));
        }
        assert!(matches!(blocks.spend("live", 0, 1), Permit::Granted { .. }));
    }
}
