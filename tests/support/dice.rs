//! A fixed sequence that looks random: the same in every run of the same seed.

/// The sequence.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of a seed; neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Self {
        // Zero is the one state that stays.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0, less than `limit`; zero where `limit` is.
    pub fn below(&mut self, limit: usize) -> usize {
        // The upper half: the lower bits are the poorer ones.
        usize::try_from((self.next() >> 32) % (limit.max(1) as u64)).unwrap_or(0)
    }

    /// True in so many of a hundred throws.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Puts a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}
