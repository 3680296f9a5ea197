//! Murmur3, x86, 32 bits, seed 0: the hash in `tag_indexed_row_keys.tag_collection_hash`.
//!
//! KairosDB passes strings to Guava's streaming `murmur3_32` hasher. Guava's one-shot `hashString`
//! is known to be wrong for characters above U+FFFF; the streaming hasher hashes their four bytes
//! of UTF-8 in order, so its result is plain Murmur3 over all bytes.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;

/// The hash of the concatenation of `parts`, as a signed int.
pub(super) fn murmur3_32<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> i32 {
    let (mut hash, mut block, mut length) = (0u32, 0u32, 0u32);
    for byte in parts.into_iter().flatten() {
        block |= u32::from(*byte) << (8 * (length % 4));
        length = length.wrapping_add(1);
        if length.is_multiple_of(4) {
            hash = (hash ^ mix(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
            block = 0;
        }
    }
    // An unfinished block of zeros mixes to zero, so an empty tail changes nothing.
    hash ^= mix(block);
    hash ^= length;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)) as i32
}

fn mix(block: u32) -> u32 {
    block.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let check = |parts: &[&str], want: i32| {
            assert_eq!(murmur3_32(parts.iter().map(|part| part.as_bytes())), want, "{parts:?}");
        };
        check(&[], 0);
        check(&["a"], 0x3c25_69b2);
        // Values written by a real KairosDB.
        check(&["host", "a"], -1_147_264_974);
        check(&["host", "b:1"], -1_336_815_236);
        check(&["host", "😀"], -198_859_633);
        check(&["dc", "x", "host", "a", "é", "€"], -125_979_127);
        // Values of Guava's streaming hasher, for strings where its `hashString` differs.
        check(&["aaé", "\u{e000}\u{10000}"], 618_596_360);
        check(&["b:1\u{e000}", "\u{10000}€"], 1_866_208_962);
        check(&["\0\0😀"], 1_591_458_261);
    }
}
