//! Rules with so many clicks of which the truth has said whether they are spent, to who asked without spending: remembered
//! for a second, so that who asks often costs it no more.

use hashbrown::HashMap;

/// For how long that is known: others may spend what is left meanwhile.
const KNOWN_MS: u64 = 1000;

/// Rules of which it is known, at most. Of others it is asked each time.
const MAX_RULES: usize = 4096;

/// What the truth has said of rules.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<Box<str>, Look>);

#[derive(Debug)]
struct Look {
    /// When the rule was made: another one of its id is not meant.
    created_at: u64,
    is_spent: bool,
    until_ms: u64,
}

impl Looks {
    pub(super) fn note(&mut self, rule: &str, created_at: u64, is_spent: bool, elapsed_ms: u64) {
        if self.0.len() >= MAX_RULES {
            self.0.retain(|_, look| elapsed_ms < look.until_ms);
        }
        if self.0.len() < MAX_RULES {
            self.0.insert(rule.into(), Look { created_at, is_spent, until_ms: elapsed_ms + KNOWN_MS });
        }
    }

    /// Whether the rule that was made then is spent, if that is known.
    pub(super) fn is_spent(&self, rule: &str, created_at: u64, elapsed_ms: u64) -> Option<bool> {
        let look =
            self.0.get(rule).filter(|look| look.created_at == created_at && elapsed_ms < look.until_ms);
        look.map(|look| look.is_spent)
    }

    /// What was said of a rule may not be so any more.
    pub(super) fn forget(&mut self, rule: &str) {
        self.0.remove(rule);
    }

    /// The same of all.
    pub(super) fn clear(&mut self) {
        self.0 = HashMap::new();
    }

    pub(super) fn bytes(&self) -> usize {
        // With the text of an id.
        self.0.capacity() * (size_of::<(Box<str>, Look)>() + 1) + self.0.len() * 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_of_one_rule_and_known_for_a_second() {
        let mut looks = Looks::default();
        looks.note("a", 7, true, 0);
        assert_eq!(looks.is_spent("a", 7, 999), Some(true));
        assert_eq!((looks.is_spent("a", 7, 1000), looks.is_spent("a", 8, 0)), (None, None));
        looks.note("a", 7, false, 500);
        assert_eq!(looks.is_spent("a", 7, 1499), Some(false));
        looks.forget("a");
        assert_eq!(looks.is_spent("a", 7, 500), None);
    }

    #[test]
    fn what_is_known_is_bounded_and_makes_room_when_it_is_over() {
        let mut looks = Looks::default();
        (0..=MAX_RULES).for_each(|rule| looks.note(&rule.to_string(), 0, true, 0));
        assert_eq!(looks.0.len(), MAX_RULES);
        assert_eq!(
            (looks.is_spent("0", 0, 1), looks.is_spent(&MAX_RULES.to_string(), 0, 1)),
            (Some(true), None)
        );
        looks.note("new", 0, true, KNOWN_MS);
        assert_eq!(looks.0.len(), 1);
    }
}
