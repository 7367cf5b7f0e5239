//! Numbers that a seed decides.

/// SplitMix64: equal seeds draw equal values, on every platform.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The values of a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below `bound`; 0 for no bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or_default()
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        let drawn = [draw.next_u64(), draw.next_u64(), draw.next_u64()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!((draw.below(0), draw.bytes(11).len()), (0, 11));
    }
}
