//! What a setting may be while others are as they are.
//!
//! Settings bound each other: a lease and a grace must fit into the life of a session. An error
//! that named the range of one alone would send people from one error to the next. So each says
//! what it may be beside the others, both ends included, and of several that are at odds the one
//! is named that is enough to change, rather one that was set than one that was left alone.

use std::fmt::Debug;

use crate::error::{Error, Result};

/// One setting of `O`.
pub(crate) struct Ranged<O, V> {
    /// With its article.
    pub(crate) name: &'static str,
    pub(crate) get: fn(&O) -> V,
    pub(crate) set: fn(&mut O, V),
    /// The least and the most that it may be, beside the others as they are.
    pub(crate) range: fn(&O) -> [V; 2],
    /// The same beside any others.
    pub(crate) widest: [V; 2],
}

impl<O: Clone, V: Copy + PartialOrd> Ranged<O, V> {
    fn is_outside(&self, options: &O, [least, most]: [V; 2]) -> bool {
        let value = (self.get)(options);
        value < least || value > most
    }

    fn is_out(&self, options: &O) -> bool {
        self.is_outside(options, (self.range)(options)) || self.is_outside(options, self.widest)
    }

    /// Whether all is well once this one is within its range.
    fn is_enough(&self, options: &O, all: &[Self]) -> bool {
        let [least, most] = (self.range)(options);
        let is_right = |value: V| {
            let mut changed = options.clone();
            (self.set)(&mut changed, value);
            !all.iter().any(|it| it.is_out(&changed))
        };
        least <= most && is_right(least) && is_right(most)
    }
}

/// Whether all settings are within their ranges; `allowed` says what is.
pub(crate) fn check<O: Clone + Default, V: Copy + PartialOrd + Debug>(
    options: &O,
    all: &[Ranged<O, V>],
    allowed: impl Fn([V; 2]) -> String,
) -> Result<()> {
    let out: Vec<_> = all.iter().filter(|it| it.is_out(options)).collect();
    let default = O::default();
    let enough = || out.iter().filter(|it| it.is_enough(options, all));
    let named = enough().find(|it| (it.get)(options) != (it.get)(&default)).or_else(|| enough().next());
    let refused = |it: &Ranged<O, V>, range: [V; 2]| {
        let value = (it.get)(options);
        Err(Error::invalid(format!("{} of {value:?} is not allowed: {}", it.name, allowed(range))))
    };
    if let Some(it) = named {
        return refused(it, (it.range)(options));
    }
    // Several have to be changed, one after another.
    if let Some(it) = all.iter().find(|it| it.is_outside(options, it.widest)) {
        return refused(it, it.widest);
    }
    match out.iter().find(|it| (it.range)(options)[0] <= (it.range)(options)[1]).or(out.first()) {
        Some(it) => refused(it, (it.range)(options)),
        None => Ok(()),
    }
}
