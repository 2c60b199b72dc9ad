//! Durations as users write them: `20s`, `500ms`, `2m`, `1.5h`.

use std::time::Duration;

/// Parses a number with an optional unit: `ms`, `s`, `m` (or `min`) or `h`.
/// Without a unit it is seconds; fractions are allowed, signs are not.
///
/// # Errors
///
/// An unknown unit, a missing or malformed number, or a duration that does not
/// fit into [`Duration`].
///
/// ```
/// use std::time::Duration;
/// use tarpipe::value::duration;
///
/// assert_eq!(duration::parse("1.5m"), Ok(Duration::from_secs(90)));
/// assert_eq!(duration::parse("500ms"), Ok(Duration::from_millis(500)));
/// assert_eq!(duration::parse("5 weeks"), Err("unknown unit ' weeks' (use ms, s, m, h)".into()));
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit '{unit}' (use ms, s, m, h)")),
    };
    let number: f64 = number.parse().map_err(|_| "not a duration (write 20s or 500ms)".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|err| err.to_string())
}

/// Parses a time limit: as [`parse`], but zero is an error, because a limit of
/// 0 s could never be met. Flags where 0 means "no limit" use [`parse`].
pub fn parse_limit(text: &str) -> Result<Duration, String> {
    parse(text).and_then(|time| if time.is_zero() { Err("must be more than 0 s".into()) } else { Ok(time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_longer_than_nothing() {
        assert_eq!(parse_limit("90s"), Ok(Duration::from_secs(90)));
        assert!(parse_limit("0").is_err() && parse_limit("0ms").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse("20"), Ok(Duration::from_secs(20)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse("soon").is_err());
        assert!(parse("5 weeks").is_err());
    }
}
