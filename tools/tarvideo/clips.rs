//! From what a sample says to the clips that are cut.

use serde_json::{Map, Value};
use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use super::choices::MaxLength;
use super::spans::{self, Span};
use super::time;

/// Where the spans of a sample stand.
#[derive(Clone, Debug)]
pub enum Source {
    Field(String),
    /// A path in the json field.
    Json(String),
}

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("json.") {
            _ if text.is_empty() => Err("no field".into()),
            Some(path) if !path.is_empty() => Ok(Source::Json(path.to_owned())),
            _ => Ok(Source::Field(text.to_owned())),
        }
    }
}

/// Which clips are wanted.
pub struct Clips {
    /// Without one the whole is a clip.
    pub source: Option<Source>,
    pub min_length: Option<f64>,
    pub max_length: Option<MaxLength>,
    /// Whether clips begin and end at keyframes.
    pub keyframes: bool,
}

/// A clip, or why there is none.
pub type Clip = Result<Span, Failure>;

impl Clips {
    /// The clips of a sample, in their order.
    pub fn of(&self, sample: &Sample, facts: &Map<String, Value>, duration: Option<f64>) -> Result<Vec<Clip>, Failure> {
        let spans = self.spans(sample, facts, duration)?;
        let clips: Vec<Clip> = spans.into_iter().flat_map(|span| self.cut(span, duration)).collect();
        if clips.is_empty() {
            return Err(Failure::new("no_clip", "the sample names no span"));
        }
        Ok(clips)
    }

    fn spans(&self, sample: &Sample, facts: &Map<String, Value>, duration: Option<f64>) -> Result<Vec<Span>, Failure> {
        let missing = |what: &str| Failure::new("no_clip", format!("no {what} in the sample"));
        let found = match &self.source {
            None => {
                let end = duration.ok_or_else(|| Failure::new("bad_clip", "its length is not known"))?;
                return Ok(vec![Span::new(0.0, end)]);
            }
            Some(Source::Field(field)) => {
                spans::in_field(&sample.get(field).ok_or_else(|| missing(&format!("field {field}")))?.data)
            }
            Some(Source::Json(path)) => {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                let value = facts.get(first);
                let value = if rest.is_empty() { value } else { value.and_then(|value| spans::at_path(value, rest)) };
                spans::in_json(value.ok_or_else(|| missing(&format!("'{path}' in the json")))?)
            }
        };
        found.map_err(|what| Failure::new("bad_clip", what))
    }

    /// One span within the video, in pieces if it is too long.
    fn cut(&self, mut span: Span, duration: Option<f64>) -> Vec<Clip> {
        if let Some(duration) = duration {
            if span.start >= duration {
                let (start, end) = (time::show(span.start), time::show(duration));
                return vec![Err(Failure::new("bad_clip", format!("it starts at {start} s, and {end} s is the end")))];
            }
            span.end = span.end.min(duration);
        }
        self.pieces(span).into_iter().map(|span| self.check(span)).collect()
    }

    fn pieces(&self, span: Span) -> Vec<Span> {
        let Some(most) = self.max_length.filter(|most| span.length() > most.seconds) else { return vec![span] };
        let count = if most.all { (span.length() / most.seconds - 1e-6).ceil() as usize } else { 1 };
        let piece = |i: usize| {
            let start = span.start + i as f64 * most.seconds;
            Span { start, end: (start + most.seconds).min(span.end), text: span.text.clone() }
        };
        (0..count).map(piece).collect()
    }

    /// Refuses a clip that is too short.
    pub fn check(&self, span: Span) -> Clip {
        match self.min_length {
            Some(least) if span.length() < least - 1e-6 => {
                let (length, least) = (time::show(span.length()), time::show(least));
                Err(Failure::new("too_short", format!("{length} s, less than {least}")))
            }
            _ => Ok(span),
        }
    }

    /// The span moved inwards to keyframes; the end of the video counts as one.
    pub fn snap(&self, span: Span, keyframes: &[f64], duration: Option<f64>) -> Clip {
        let ends = keyframes.iter().copied().chain(duration);
        let start = keyframes.iter().copied().find(|at| *at >= span.start - 1e-6);
        let end = ends.filter(|at| *at <= span.end + 1e-6).fold(0.0, f64::max);
        match start {
            Some(start) if start < end => self.check(Span { start, end, text: span.text }),
            _ => Err(Failure::new("too_short", "no two keyframes in it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clips(max_length: &str) -> Clips {
        let max_length = Some(max_length.parse().unwrap());
        Clips { source: None, min_length: Some(1.0), max_length, keyframes: false }
    }

    fn ends(clips: Vec<Clip>) -> Vec<Result<(f64, f64), &'static str>> {
        clips.into_iter().map(|clip| clip.map(|span| (span.start, span.end)).map_err(|failure| failure.code)).collect()
    }

    #[test]
    fn long_spans_are_cut_and_short_ones_left_out() {
        let span = Span::new(1.0, 8.5);
        assert_eq!(ends(clips("3").cut(span.clone(), None)), [Ok((1.0, 4.0)), Ok((4.0, 7.0)), Ok((7.0, 8.5))]);
        assert_eq!(ends(clips("3:first").cut(span.clone(), None)), [Ok((1.0, 4.0))]);
        assert_eq!(ends(clips("7").cut(span.clone(), None)), [Ok((1.0, 8.0)), Err("too_short")]);
        assert_eq!(ends(clips("3").cut(span.clone(), Some(7.0))), [Ok((1.0, 4.0)), Ok((4.0, 7.0))]);
        assert_eq!(ends(clips("3").cut(span, Some(0.5))), [Err("bad_clip")]);
    }

    #[test]
    fn keyframes_bound_a_clip_from_within() {
        let snap = |start, end| ends(vec![clips("99").snap(Span::new(start, end), &[0.0, 2.0, 4.0], Some(5.0))]);
        assert_eq!(snap(0.5, 4.5), [Ok((2.0, 4.0))]);
        assert_eq!(snap(0.0, 5.0), [Ok((0.0, 5.0))]);
        assert_eq!(snap(2.5, 3.5), [Err("too_short")]);
    }
}
