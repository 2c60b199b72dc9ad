//! Sizes in bytes, as users write them and as messages show them.
//!
//! The two directions differ on purpose: flags such as `--memory 2G` mean
//! powers of 1024, as in coreutils, while messages show powers of 1000, as
//! disks and networks are sold.

/// Parses `123`, `200M` or `1.5G`: a number and an optional letter K, M, G or T
/// in either case, meaning powers of 1024. A `B` or `iB` after the letter is
/// ignored, so `2GB` and `2GiB` are the same. The result is rounded down to
/// whole bytes.
///
/// # Errors
///
/// An unknown unit, or a missing or malformed number (signs included).
///
/// ```
/// use tarpipe::value::size;
///
/// assert_eq!(size::parse("2k"), Ok(2048));
/// assert_eq!(size::parse("1.5GiB"), Ok(1_610_612_736));
/// assert_eq!(size::parse("5X"), Err("unknown unit 'X' (use K, M, G, T)".into()));
/// ```
pub fn parse(text: &str) -> Result<u64, String> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let power = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(format!("unknown unit '{unit}' (use K, M, G, T)")),
    };
    let number: f64 = number.parse().map_err(|_| "not a size (write 123, 200M or 1.5G)".to_owned())?;
    Ok((number * 1024_f64.powi(power)) as u64)
}

/// Formats a size for people: `512 B`, `1.4 MB`, `38 GB`, in powers of 1000
/// with two or three significant digits. Not meant to be parsed.
///
/// ```
/// assert_eq!(tarpipe::value::size::show(1_400_000), "1.4 MB");
/// ```
pub fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "kB", "MB", "GB", "TB", "PB"].iter();
    let mut unit = units.next().unwrap_or(&"");
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    if value >= 100.0 || *unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        assert_eq!(parse("123"), Ok(123));
        assert_eq!(parse("2k"), Ok(2048));
        assert_eq!(parse("1.5GiB"), Ok(1_610_612_736));
        assert!(parse("fast").is_err());
        assert!(parse("5X").is_err());
        assert!(parse("").is_err());
        assert_eq!(show(512), "512 B");
        assert_eq!(show(1_400_000), "1.4 MB");
        assert_eq!(show(999_999_999), "1.0 GB");
    }
}
