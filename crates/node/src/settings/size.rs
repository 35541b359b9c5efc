//! Sizes in bytes, as people read them.

/// Formats a size for people: `16 MiB`, `1.5 GiB`.
pub(crate) fn format_bytes(bytes: u64) -> String {
    let of = |unit: u64, word: &str| format!("{} {word}", (bytes as f64 / unit as f64 * 10.0).round() / 10.0);
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => of(1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => of(1 << 20, "MiB"),
        _ => of(1 << 30, "GiB"),
    }
}

#[cfg(test)]
mod tests {
    use rusm_text::parse_size;

    use super::*;

    #[test]
    fn sizes_read_in_the_usual_units() {
        let cases = [("65536", 65_536), ("64KiB", 65_536), ("16 MiB", 16 << 20), ("1_000kB", 1_000_000), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5MiB", "16 mib", "99999999999GiB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_written_as_people_say_them() {
        assert_eq!([512, 65_536, 16 << 20, 3 << 29].map(format_bytes), ["512 bytes", "64 KiB", "16 MiB", "1.5 GiB"]);
    }
}
