//! Random numbers that depend only on a seed and a position, so that the demo can compute any moment.

/// Returns a number from 0 to 1 that depends only on the arguments.
pub(super) fn random(seed: u64, salt: u64, n: u64) -> f64 {
    let mut x = seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
