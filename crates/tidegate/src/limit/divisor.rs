//! Exact division by a number that is known long before.

/// Divides by multiplying with the reciprocal: a division takes ten times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divisor {
    by: u64,
    /// `(2^64 - 1) / by`.
    reciprocal: u64,
}

impl Divisor {
    /// Dividing by 0 is dividing by 1.
    pub(super) const fn new(by: u64) -> Self {
        let by = if by == 0 { 1 } else { by };
        Self { by, reciprocal: u64::MAX / by }
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        self.by
    }

    /// `number / by`.
    #[inline]
    pub(super) fn floor(self, number: u64) -> u64 {
        // The reciprocal is less than `by` parts of 2^64 too small in all, so that the
        // estimate is the quotient or one less, for every number.
        let estimate = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        estimate + u64::from(number - estimate * self.by >= self.by)
    }

    /// The same, rounded up.
    #[inline]
    pub(super) fn ceil(self, number: u64) -> u64 {
        let floor = self.floor(number);
        floor + u64::from(floor * self.by != number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact() {
        let mut random = 88_172_645_463_325_252_u64;
        let divisors =
            [1, 2, 3, 7, 10, 600, 1000, 26_784, 2_678_400_000, 1 << 50, u64::MAX / 2 + 1, u64::MAX];
        for by in divisors {
            let divisor = Divisor::new(by);
            for i in 0..20_000_u64 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let multiple = i.wrapping_mul(by);
                let near = [multiple, multiple.wrapping_sub(1), multiple.wrapping_add(1), u64::MAX - i];
                for number in near.into_iter().chain([i, random, random >> 16, random >> 24]) {
                    assert_eq!(divisor.floor(number), number / by, "{number} / {by}");
                    assert_eq!(divisor.ceil(number), number.div_ceil(by), "{number} / {by}");
                }
            }
        }
    }
}
