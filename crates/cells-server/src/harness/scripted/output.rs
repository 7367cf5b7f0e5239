//! The text of the slash command `output`: any number of bytes, always the same ones.

/// `bytes` bytes of UTF-8 text. Line number n (from 0) is n with ten digits, a space, `seed`, a space and
/// `naïve café – 日本語 😀`. The text is cut after `bytes` bytes; a character that the cut would split becomes dots.
///
/// The manual repeats this recipe, so that a client can compute the digest it expects.
pub(super) fn generate(bytes: usize, seed: &str) -> String {
    let mut text = String::with_capacity(bytes + LINE_MAX_BYTES);
    let mut number = 0_u64;
    while text.len() < bytes {
        text.push_str(&format!("{number:010} {seed} naïve café – 日本語 😀\n"));
        number += 1;
    }
    text.truncate(text.floor_char_boundary(bytes));
    text.extend(std::iter::repeat_n('.', bytes - text.len()));
    text
}

/// Largest text: above what a node keeps behind a reference, so that this case can be tried too.
pub(super) const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest seed.
pub(super) const SEED_MAX_BYTES: usize = 64;
const LINE_MAX_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_follows_its_recipe() {
        assert_eq!(generate(0, "0"), "");
        assert_eq!(generate(13, "7"), "0000000000 7 ");
        assert_eq!(generate(16, "7"), "0000000000 7 na.");
        assert_eq!(generate(17, "7"), "0000000000 7 naï");
        let line = "0000000000 ab naïve café – 日本語 😀\n";
        let next = "0000000001 ab naïve café – 日本語 😀\n";
        assert_eq!(generate(2 * line.len(), "ab"), format!("{line}{next}"));
        assert_eq!(generate(line.len() - 2, "ab"), format!("{}...", line.split('😀').next().unwrap()));
    }

    #[test]
    fn the_text_is_that_of_the_program_in_the_manual() {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(generate(1_000_003, "x"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "1698f5d4d381960d2da04e729f67896b87b7019ce7712a0e225b95757edebd71");
    }

    #[test]
    fn the_text_has_exactly_the_bytes_asked_for() {
        for bytes in (0..300).chain([65_536, 1_000_003]) {
            assert_eq!(generate(bytes, "x").len(), bytes);
        }
    }
}
