//! Why an image failed: a stable code for reports and a sentence for people.

use std::fmt;

/// The reason codes in reports and summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFailureCode {
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

impl ImageFailureCode {
    /// The code as reports write it.
    pub fn name(self) -> &'static str {
        match self {
            ImageFailureCode::Decode => "decode",
            ImageFailureCode::Truncated => "truncated",
            ImageFailureCode::TooSmall => "too_small",
            ImageFailureCode::TooLargeArea => "too_large_area",
            ImageFailureCode::Aspect => "aspect",
            ImageFailureCode::Animated => "animated",
            ImageFailureCode::Unsupported => "unsupported",
            ImageFailureCode::Bomb => "bomb",
            ImageFailureCode::Memory => "memory",
            ImageFailureCode::NoImage => "no_image",
            ImageFailureCode::Boxes => "boxes",
        }
    }
}

/// An image that cannot be processed, or that a filter rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFailure {
    pub code: ImageFailureCode,
    pub detail: String,
}

impl ImageFailure {
    pub fn new(code: ImageFailureCode, detail: impl fmt::Display) -> Self {
        Self { code, detail: detail.to_string() }
    }

    pub fn decode(detail: impl fmt::Display) -> Self {
        Self::new(ImageFailureCode::Decode, detail)
    }

    pub fn truncated(detail: impl fmt::Display) -> Self {
        Self::new(ImageFailureCode::Truncated, detail)
    }
}

impl fmt::Display for ImageFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}
