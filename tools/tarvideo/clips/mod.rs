//! Which clips to cut from a sample: reads the spans, clamps them to the video, divides long ones and rejects short
//! ones.

pub mod subtitles;
pub mod time_spans;
pub mod timestamp;

use serde_json::{Map, Value};
use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use crate::tarvideo::clips::time_spans::TimeSpan;
use crate::tarvideo::flag_values::MaxLength;

/// Where to find the spans of a sample.
#[derive(Clone, Debug)]
pub enum SpanSource {
    Field(String),
    /// A path in the json field.
    Json(String),
}

impl std::str::FromStr for SpanSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("json.") {
            _ if text.is_empty() => Err("missing field name".into()),
            Some(path) if !path.is_empty() => Ok(SpanSource::Json(path.to_owned())),
            _ => Ok(SpanSource::Field(text.to_owned())),
        }
    }
}

/// Which clips to cut.
pub struct ClipOptions {
    /// `None` takes the whole media as one clip.
    pub source: Option<SpanSource>,
    pub min_length: Option<f64>,
    pub max_length: Option<MaxLength>,
    /// Whether clips start and end at keyframes.
    pub keyframes: bool,
}

/// A clip, or the reason why it cannot be cut.
pub type ClipResult = Result<TimeSpan, Failure>;

impl ClipOptions {
    /// The clips of a sample, in order.
    pub fn find(
        &self,
        sample: &Sample,
        json: &Map<String, Value>,
        duration: Option<f64>,
    ) -> Result<Vec<ClipResult>, Failure> {
        let spans = self.spans(sample, json, duration)?;
        let clips: Vec<ClipResult> = spans.into_iter().flat_map(|span| self.cut(span, duration)).collect();
        if clips.is_empty() {
            return Err(Failure::new("no_clip", "the sample lists no span"));
        }
        Ok(clips)
    }

    fn spans(
        &self,
        sample: &Sample,
        json: &Map<String, Value>,
        duration: Option<f64>,
    ) -> Result<Vec<TimeSpan>, Failure> {
        let missing = |what: &str| Failure::new("no_clip", format!("the sample has no {what}"));
        let found = match &self.source {
            None => {
                let end = duration.ok_or_else(|| Failure::new("bad_clip", "the length of the media is unknown"))?;
                return Ok(vec![TimeSpan::new(0.0, end)]);
            }
            Some(SpanSource::Field(field)) => {
                time_spans::parse_field(&sample.get(field).ok_or_else(|| missing(&format!("field {field}")))?.data)
            }
            Some(SpanSource::Json(path)) => {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                let value = json.get(first);
                let value =
                    if rest.is_empty() { value } else { value.and_then(|value| time_spans::at_path(value, rest)) };
                time_spans::parse_json(value.ok_or_else(|| missing(&format!("'{path}' in the json")))?)
            }
        };
        found.map_err(|what| Failure::new("bad_clip", what))
    }

    /// Clamps a span to the video, and divides it if it is too long.
    fn cut(&self, mut span: TimeSpan, duration: Option<f64>) -> Vec<ClipResult> {
        if let Some(duration) = duration {
            if span.start >= duration {
                let (start, end) = (timestamp::show(span.start), timestamp::show(duration));
                return vec![Err(Failure::new(
                    "bad_clip",
                    format!("starts at {start} s, but the media ends at {end} s"),
                ))];
            }
            span.end = span.end.min(duration);
        }
        self.pieces(span).into_iter().map(|span| self.check(span)).collect()
    }

    fn pieces(&self, span: TimeSpan) -> Vec<TimeSpan> {
        let Some(max) = self.max_length.filter(|max| span.length() > max.seconds) else { return vec![span] };
        let count = if max.all { (span.length() / max.seconds - 1e-6).ceil() as usize } else { 1 };
        let piece = |i: usize| {
            let start = span.start + i as f64 * max.seconds;
            TimeSpan { start, end: (start + max.seconds).min(span.end), text: span.text.clone() }
        };
        (0..count).map(piece).collect()
    }

    /// Rejects a clip that is too short.
    pub fn check(&self, span: TimeSpan) -> ClipResult {
        match self.min_length {
            Some(min) if span.length() < min - 1e-6 => {
                let (length, min) = (timestamp::show(span.length()), timestamp::show(min));
                Err(Failure::new("too_short", format!("{length} s is shorter than {min} s")))
            }
            _ => Ok(span),
        }
    }

    /// Shrinks the span to keyframes; the end of the video counts as a keyframe.
    pub fn snap(&self, span: TimeSpan, keyframes: &[f64], duration: Option<f64>) -> ClipResult {
        let ends = keyframes.iter().copied().chain(duration);
        let start = keyframes.iter().copied().find(|at| *at >= span.start - 1e-6);
        let end = ends.filter(|at| *at <= span.end + 1e-6).fold(0.0, f64::max);
        match start {
            Some(start) if start < end => self.check(TimeSpan { start, end, text: span.text }),
            _ => Err(Failure::new("too_short", "the span does not contain two keyframes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clips(max_length: &str) -> ClipOptions {
        let max_length = Some(max_length.parse().unwrap());
        ClipOptions { source: None, min_length: Some(1.0), max_length, keyframes: false }
    }

    fn ends(clips: Vec<ClipResult>) -> Vec<Result<(f64, f64), &'static str>> {
        clips.into_iter().map(|clip| clip.map(|span| (span.start, span.end)).map_err(|failure| failure.code)).collect()
    }

    #[test]
    fn long_spans_are_cut_and_short_ones_left_out() {
        let span = TimeSpan::new(1.0, 8.5);
        assert_eq!(ends(clips("3").cut(span.clone(), None)), [Ok((1.0, 4.0)), Ok((4.0, 7.0)), Ok((7.0, 8.5))]);
        assert_eq!(ends(clips("3:first").cut(span.clone(), None)), [Ok((1.0, 4.0))]);
        assert_eq!(ends(clips("7").cut(span.clone(), None)), [Ok((1.0, 8.0)), Err("too_short")]);
        assert_eq!(ends(clips("3").cut(span.clone(), Some(7.0))), [Ok((1.0, 4.0)), Ok((4.0, 7.0))]);
        assert_eq!(ends(clips("3").cut(span, Some(0.5))), [Err("bad_clip")]);
    }

    #[test]
    fn keyframes_bound_a_clip_from_within() {
        let snap = |start, end| ends(vec![clips("99").snap(TimeSpan::new(start, end), &[0.0, 2.0, 4.0], Some(5.0))]);
        assert_eq!(snap(0.5, 4.5), [Ok((2.0, 4.0))]);
        assert_eq!(snap(0.0, 5.0), [Ok((0.0, 5.0))]);
        assert_eq!(snap(2.5, 3.5), [Err("too_short")]);
    }
}
