//! Encodes numbers as bytes that compare as the numbers do.

/// From here on, different integers can be the same float.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Appends a number. None, and nothing appended, if `text` is not a finite number.
pub fn append(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let text = text.trim();
    let float: f64 = text.parse().ok().filter(|float: &f64| float.is_finite())?;
    let float = if float == 0.0 { 0.0 } else { float }; // -0 is 0
    let bits = float.to_bits();
    let ordered = if float.is_sign_negative() { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
    if float.abs() >= EXACT {
        let exact = text.parse::<i128>().unwrap_or(float as i128);
        out.extend_from_slice(&((exact as u128) ^ 1 << 127).to_be_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_compare_as_numbers_do() {
        let ascending = [
            "-1e300",
            "-9007199254740993",
            "-9007199254740992",
            "-2.5",
            "-2",
            "-0.001",
            "0",
            "1e-9",
            "0.5",
            "1",
            "10",
            "9007199254740992",
            "9007199254740993",
            "1234567890123456788",
            "1234567890123456789",
            "1e300",
        ];
        let bytes = ascending.map(|text| {
            let mut out = Vec::new();
            append(&mut out, text).unwrap();
            out
        });
        assert!(bytes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn text_that_is_not_a_finite_number_is_refused() {
        for text in ["", "cat", "1x", "NaN", "inf", "1e999"] {
            let mut out = Vec::new();
            assert!(append(&mut out, text).is_none() && out.is_empty(), "{text}");
        }
        let (mut zero, mut minus) = (Vec::new(), Vec::new());
        append(&mut zero, " 0\n").unwrap();
        append(&mut minus, "-0").unwrap();
        assert_eq!(zero, minus);
    }
}
