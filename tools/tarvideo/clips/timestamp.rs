//! Timestamps within a video, as written in flags, JSON and subtitles.

/// Parses seconds, `M:S.f` or `H:M:S.f`, with a dot or comma before the fraction.
pub fn parse(text: &str) -> Result<f64, String> {
    let invalid = || format!("invalid time '{text}' (write 12.5 or 0:01:02.5)");
    let parts: Vec<&str> = text.trim().split(':').collect();
    if parts.len() > 3 {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    for (i, part) in parts.iter().enumerate() {
        let is_last = i + 1 == parts.len();
        let is_number = part.bytes().all(|b| b.is_ascii_digit() || (is_last && matches!(b, b'.' | b',')));
        let value: f64 = part.replace(',', ".").parse().map_err(|_| invalid())?;
        if !is_number || (i > 0 && value >= 60.0) {
            return Err(invalid());
        }
        seconds = seconds * 60.0 + value;
    }
    Ok(seconds)
}

/// Parses a duration greater than 0.
pub fn length(text: &str) -> Result<f64, String> {
    parse(text).and_then(|seconds| if seconds > 0.0 { Ok(seconds) } else { Err("must be greater than 0 s".into()) })
}

/// Formats seconds for ffmpeg and for messages.
pub fn show(seconds: f64) -> String {
    let text = format!("{seconds:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rounds to the microsecond, which removes floating-point noise.
pub fn round(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_clocks() {
        assert_eq!(parse("12.5"), Ok(12.5));
        assert_eq!(parse("1:02.5"), Ok(62.5));
        assert_eq!(parse("01:00:01,250"), Ok(3601.25));
        for wrong in ["", "a", "-1", "1:60", "1:2:3:4", "1.5:00", "inf", "1e3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_shown_without_noise() {
        assert_eq!((show(2.0).as_str(), show(0.1 + 0.2).as_str(), show(0.0).as_str()), ("2", "0.3", "0"));
        assert_eq!(round(0.1 + 0.2), 0.3);
    }
}
