//! Times as people write them.

use std::time::Duration;

/// Reads a time: `20`, `20s`, `500ms`, `2m`, `1h`: seconds where no unit is given.
pub fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit '{unit}' (ms, s, m, h)")),
    };
    let number: f64 = number.parse().map_err(|_| "not a time (write 20s or 500ms)".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|err| err.to_string())
}

/// Reads a time limit: a time as [`parse`] reads it, longer than 0.
pub fn parse_limit(text: &str) -> Result<Duration, String> {
    parse(text).and_then(|time| if time.is_zero() { Err("must be longer than 0 s".into()) } else { Ok(time) })
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
