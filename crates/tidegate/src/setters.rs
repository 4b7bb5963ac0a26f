//! Options are made by setters that chain, one for each field and called like it.

/// Writes them: for fields as they are, and behind `some` for those that are an `Option`.
macro_rules! setters {
    ($options:ident { $($field:ident: $type:ty,)* $(; some $($optional:ident: $inner:ty,)*)? }) => {
        impl $options {
            /// The defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*

            $($(
                #[doc = concat!("Sets [`", stringify!($optional), "`](#structfield.", stringify!($optional), ").")]
                #[must_use]
                pub fn $optional(mut self, $optional: impl Into<$inner>) -> Self {
                    self.$optional = Some($optional.into());
                    self
                }
            )*)?
        }
    };
}

pub(crate) use setters;
