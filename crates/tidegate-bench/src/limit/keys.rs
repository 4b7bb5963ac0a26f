//! Keys, and the order in which they are used.

/// `count` keys as services have them.
pub(super) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user_{number:06}")).collect()
}

/// `length` positions below `below` in mixed order, the same in every run.
pub(super) fn mixed(length: usize, below: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // The high half of the product is even enough over `below`.
    (0..length).map(|_| ((u128::from(next()) * below as u128) >> 64) as u32).collect()
}
