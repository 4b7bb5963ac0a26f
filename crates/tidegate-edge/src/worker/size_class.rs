//! What an allocation takes from memory.

/// What the allocator sets aside for so many bytes. As `mimalloc` does on 64 bits, which is what the server has: in steps
/// of 16 up to 128, then in four steps per doubling; from half a megabyte on whole pages of the system. An allocator that
/// puts a word in front, as that of glibc does, takes up to 16 more for small ones.
pub(crate) fn size_class(bytes: usize) -> usize {
    const LARGEST: usize = 512 << 10;
    const PAGE: usize = 4 << 10;
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        129..=LARGEST => bytes.next_multiple_of(1 << (bytes - 1).ilog2() >> 2),
        _ => bytes.next_multiple_of(PAGE),
    }
}

/// What so many values in a row take.
pub(crate) fn array<T>(len: usize) -> usize {
    size_class(len * size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_allocator() {
        // What `mi_good_size` of version 3 answers.
        let expected = [
            (0, 0),
            (1, 8),
            (8, 8),
            (9, 16),
            (17, 32),
            (33, 48),
            (64, 64),
            (65, 80),
            (96, 96),
            (97, 112),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1025, 1280),
            (3000, 3072),
            (24_576, 24_576),
            (24_577, 28_672),
            (524_288, 524_288),
            (524_289, 528_384),
        ];
        for (bytes, class) in expected {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn a_class_is_its_own_and_wastes_no_more_than_a_fifth() {
        for bytes in 128..100_000 {
            let class = size_class(bytes);
            assert_eq!(size_class(class), class);
            assert!(class >= bytes && class - bytes <= class / 5, "{bytes}: {class}");
        }
    }
}
