//! What was asked for, or why not: what calls answer that a part may refuse.

/// What was asked for, or why not. A refusal is an answer; an [`Error`](crate::Error) says that
/// there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "it may be a refusal"]
pub enum Answer<T, R> {
    /// It was done.
    Done(T),
    /// It was not, and why.
    Refused(R),
}

impl<T, R> Answer<T, R> {
    /// Whether it was done.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// What was asked for, if it was done.
    pub fn done(self) -> Option<T> {
        self.into_result().ok()
    }

    /// Why it was not done, if it was not.
    pub fn refusal(&self) -> Option<R>
    where
        R: Copy,
    {
        match self {
            Self::Done(_) => None,
            Self::Refused(refusal) => Some(*refusal),
        }
    }

    /// The same with another value, if it was done.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Answer<U, R> {
        self.into_result().map(to).into()
    }

    /// The same for callers to whom a refusal is an error.
    pub fn into_result(self) -> std::result::Result<T, R> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

impl<T, R> From<std::result::Result<T, R>> for Answer<T, R> {
    fn from(granted: std::result::Result<T, R>) -> Self {
        match granted {
            Ok(done) => Self::Done(done),
            Err(refusal) => Self::Refused(refusal),
        }
    }
}
