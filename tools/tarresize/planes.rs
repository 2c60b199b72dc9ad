//! Scaling the planes of a JPEG: luma and the chroma that is already small, each at its own size.

use crate::area::Rect;
use crate::failure::Failure;
use crate::jpeg::Planes;
use crate::picture::Layout;
use crate::resample::{Filter, Resampler};
use crate::size::{Plan, Size};

/// Scales the luma rectangle `rect` of `from` into `to`, which has its size and ratio already.
pub fn scale(
    from: &Planes,
    to: &mut Planes,
    rect: Rect,
    plan: &Plan,
    filter: Filter,
    resampler: &mut Resampler,
) -> Result<(), Failure> {
    let ratio_from = from.ratio.unwrap_or((1, 1));
    let ratio_to = to.ratio.unwrap_or((1, 1));
    let shown = plan.shown();
    for (i, ((from_range, from_size), (to_range, to_size))) in from.layout().into_iter().zip(to.layout()).enumerate() {
        let (from_ratio, to_ratio) = if i == 0 { ((1, 1), (1, 1)) } else { (ratio_from, ratio_to) };
        let inner = Size::new(shown.width.div_ceil(to_ratio.0), shown.height.div_ceil(to_ratio.1));
        let rect = chroma_rect(rect, from_ratio, to_ratio, shown, inner);
        let source = &from.data[from_range];
        let out = &mut to.data[to_range];
        if inner == to_size {
            resampler.plane(source, from_size, Layout::Gray, rect, out, inner, filter)?;
        } else {
            let mut part = vec![0; inner.width as usize * inner.height as usize];
            resampler.plane(source, from_size, Layout::Gray, rect, &mut part, inner, filter)?;
            let (left, top) = plan.pad();
            let at = Size::new(left / to_ratio.0, top / to_ratio.1);
            let bordered = plan.output != shown;
            let border = bordered.then_some(if i == 0 { 255 } else { 128 });
            place(&part, inner, out, to_size, at, border);
        }
    }
    Ok(())
}

/// The rectangle in chroma samples, stretched where the last new sample reaches beyond the picture.
fn chroma_rect(luma: Rect, from: (u32, u32), to: (u32, u32), shown: Size, inner: Size) -> Rect {
    let stretch = |samples: u32, ratio: u32, shown: u32| f64::from(samples * ratio) / f64::from(shown);
    Rect {
        x: luma.x / f64::from(from.0),
        y: luma.y / f64::from(from.1),
        width: luma.width / f64::from(from.0) * stretch(inner.width, to.0, shown.width),
        height: luma.height / f64::from(from.1) * stretch(inner.height, to.1, shown.height),
    }
}

/// Puts a part into a plane; around it comes the border, or else its own edge repeated.
fn place(part: &[u8], size: Size, out: &mut [u8], out_size: Size, at: Size, border: Option<u8>) {
    let (width, height) = (size.width as usize, size.height as usize);
    let (left, top) = (at.width as usize, at.height as usize);
    for (y, row) in out.chunks_exact_mut(out_size.width as usize).enumerate() {
        let inside = (top..top + height).contains(&y);
        if let Some(value) = border {
            row.fill(value);
            if !inside {
                continue;
            }
        }
        let source = &part[y.saturating_sub(top).min(height - 1) * width..][..width];
        row[left..left + width].copy_from_slice(source);
        if border.is_none() {
            row[left + width..].fill(source[width - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::{Mode, plan};

    fn flat(size: Size, ratio: Option<(u32, u32)>, values: [u8; 3]) -> Planes {
        let mut planes = Planes::default();
        planes.reset(size, ratio);
        for ((range, _), value) in planes.layout().into_iter().zip(values) {
            planes.data[range].fill(value);
        }
        planes
    }

    #[test]
    fn flat_planes_stay_flat_at_odd_sizes_and_ratios() {
        let original = Size::new(37, 23);
        for ratio in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)] {
            for wanted in [5, 8, 17] {
                let plan = plan(original, Mode::KeepRatio, Size::new(wanted, wanted), false);
                let from = flat(original, Some(ratio), [50, 100, 200]);
                let mut to = flat(plan.output, Some((2, 2)), [0; 3]);
                let rect = Rect { x: 0.0, y: 0.0, width: 37.0, height: 23.0 };
                for filter in [Filter::Area, Filter::Lanczos] {
                    scale(&from, &mut to, rect, &plan, filter, &mut Resampler::default()).unwrap();
                    for ((range, _), value) in to.layout().into_iter().zip([50, 100, 200]) {
                        assert!(to.data[range].iter().all(|&v| v == value), "{ratio:?} {wanted} {filter:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_border_is_white() {
        let plan = plan(Size::new(16, 8), Mode::Border, Size::new(8, 8), false);
        let from = flat(Size::new(16, 8), Some((2, 2)), [10, 20, 30]);
        let mut to = flat(plan.output, Some((2, 2)), [0; 3]);
        let rect = Rect { x: 0.0, y: 0.0, width: 16.0, height: 8.0 };
        scale(&from, &mut to, rect, &plan, Filter::Area, &mut Resampler::default()).unwrap();
        assert_eq!((to.data[0], to.data[2 * 8], to.data[5 * 8 + 7], to.data[6 * 8]), (255, 10, 10, 255));
        assert_eq!(to.data[64..80], [128, 128, 128, 128, 20, 20, 20, 20, 20, 20, 20, 20, 128, 128, 128, 128]);
    }
}
