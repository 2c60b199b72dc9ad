//! Why an image was left out: one stable code each, and a sentence for people.

use std::fmt;

/// The reason codes that reports and summaries name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Decode,
    Truncated,
    TooSmall,
    TooLargeArea,
    Aspect,
    Animated,
    Unsupported,
    Bomb,
    Memory,
    NoImage,
    Boxes,
}

impl Code {
    /// The word that stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Code::Decode => "decode",
            Code::Truncated => "truncated",
            Code::TooSmall => "too_small",
            Code::TooLargeArea => "too_large_area",
            Code::Aspect => "aspect",
            Code::Animated => "animated",
            Code::Unsupported => "unsupported",
            Code::Bomb => "bomb",
            Code::Memory => "memory",
            Code::NoImage => "no_image",
            Code::Boxes => "boxes",
        }
    }
}

/// An image that could not or should not be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub detail: String,
}

impl Failure {
    pub fn new(code: Code, detail: impl fmt::Display) -> Self {
        Self { code, detail: detail.to_string() }
    }

    pub fn decode(detail: impl fmt::Display) -> Self {
        Self::new(Code::Decode, detail)
    }

    pub fn truncated(detail: impl fmt::Display) -> Self {
        Self::new(Code::Truncated, detail)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}
