//! What is open of a kind of part, by name.

use std::fmt;
use std::sync::OnceLock;

use tidegate::{Error, Tidegate};

use super::{About, Named, PartOptions};
use crate::settings::SettingsError;

/// All parts of a kind, in the order of their names.
#[derive(Debug)]
pub(crate) struct Opened<O: PartOptions> {
    gate: Tidegate,
    all: Vec<One<O>>,
}

#[derive(Debug)]
struct One<O: PartOptions> {
    name: String,
    options: O,
    open: OnceLock<O::Open>,
}

impl<O: PartOptions> Opened<O> {
    pub(super) fn open(gate: &Tidegate, all: &[Named<O>]) -> Result<Self, SettingsError> {
        let one = |named: &Named<O>| {
            let open = match named.is_implied && O::ABOUT.opens_by_use {
                true => OnceLock::new(),
                false => named.open(gate)?.into(),
            };
            Ok(One { name: named.name.as_str().to_owned(), options: named.options.clone(), open })
        };
        let mut all: Vec<_> = all.iter().map(one).collect::<Result<_, _>>()?;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { gate: gate.clone(), all })
    }

    /// Which of them is called `name`, by either name if it has two.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let find = |name: &str| self.all.binary_search_by(|one| one.name.as_str().cmp(name)).ok();
        find(name).or_else(|| find(O::ABOUT.kind.alias(name)?))
    }

    /// The one called `name`.
    pub(crate) fn get(&self, name: &str) -> Result<&O::Open, PartError> {
        let at = self.position(name).ok_or_else(|| PartError::Unknown(self.unknown(name)))?;
        self.at(at).map_err(PartError::Failed)
    }

    /// The one at a position.
    pub(crate) fn at(&self, position: usize) -> Result<&O::Open, Error> {
        let one = &self.all[position];
        if let Some(open) = one.open.get() {
            return Ok(open);
        }
        // Opened twice at once it is the same part.
        let opened = one.options.open(&self.gate, &one.name)?;
        Ok(one.open.get_or_init(|| opened))
    }

    pub(crate) fn unknown(&self, name: &str) -> Unknown {
        Unknown::new(O::ABOUT, name, self.iter().map(|(known, _)| known))
    }

    /// All names, each with its options, whether it is open yet or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &O)> {
        self.all.iter().map(|one| (one.name.as_str(), &one.options))
    }
}

/// Why there is no part to be had.
#[derive(Debug)]
pub(crate) enum PartError {
    Unknown(Unknown),
    /// It could not be opened.
    Failed(Error),
    /// Nobody has said what it is.
    Undeclared(String),
}

/// There is none of that name.
#[derive(Debug)]
pub(crate) struct Unknown {
    pub(crate) about: &'static About,
    name: String,
    known: String,
}

impl Unknown {
    pub(crate) fn new<'a>(about: &'static About, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        // Somebody else's text, and of any length.
        let name = name.chars().take(64).collect();
        Self { about, name, known: known.collect::<Vec<_>>().join(", ") }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about: About { noun, .. }, name, known } = self;
        write!(f, "there is no {noun} {name:?}; known are: {known}")
    }
}
