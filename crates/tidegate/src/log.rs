//! What is said to the log: through `tracing` with the feature of that name, to nobody without.

#[cfg(feature = "tracing")]
pub(crate) use tracing::{error, info, warn};

#[cfg(not(feature = "tracing"))]
macro_rules! unsaid {
    ($($said:tt)*) => {
        ()
    };
}
#[cfg(not(feature = "tracing"))]
pub(crate) use {unsaid as error, unsaid as info, unsaid as warn};
