//! The YUV planes of a JPEG, and resizing them one by one without converting to RGB.

use std::ops::Range;

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::geometry::{PixelSize, ResizePlan};
use crate::tarresize::pixels::area_filter::Rect;
use crate::tarresize::pixels::picture::PixelLayout;
use crate::tarresize::pixels::resample::{Filter, Resampler};

/// A luma plane and two chroma planes (none for gray), one after the other without gaps. The luma plane is padded to
/// whole chroma samples.
#[derive(Default)]
pub struct YuvPlanes {
    pub data: Vec<u8>,
    pub width: u32,
    pub height: u32,
    /// Luma samples per chroma sample, horizontally and vertically; `None` for gray.
    pub ratio: Option<(u32, u32)>,
}

impl YuvPlanes {
    /// Frees the buffer if it is larger than `max_kept` bytes.
    pub fn release(&mut self, max_kept: usize) {
        if self.data.capacity() > max_kept {
            *self = YuvPlanes::default();
        }
    }

    /// Sets the size and reuses the allocation. The buffer still holds another image: the caller must write every byte.
    pub fn reset(&mut self, size: PixelSize, ratio: Option<(u32, u32)>) {
        (self.width, self.height, self.ratio) = (size.width, size.height, ratio);
        let len = self.layout().last().map_or(0, |(range, _)| range.end);
        self.data.resize(len, 0);
    }

    /// The byte range and size of each plane.
    pub fn layout(&self) -> Vec<(Range<usize>, PixelSize)> {
        let (across, down) = self.ratio.unwrap_or((1, 1));
        let chroma = PixelSize::new(self.width.div_ceil(across), self.height.div_ceil(down));
        let luma = PixelSize::new(chroma.width * across, chroma.height * down);
        let mut planes = vec![luma];
        if self.ratio.is_some() {
            planes.extend([chroma; 2]);
        }
        let mut end = 0;
        let locate = |size: PixelSize| {
            let start = end;
            end += size.width as usize * size.height as usize;
            (start..end, size)
        };
        planes.into_iter().map(locate).collect()
    }
}

/// Scales the rectangle `rect`, in luma samples, of `from` into `to`, whose size and subsampling are already set.
pub fn scale(
    from: &YuvPlanes,
    to: &mut YuvPlanes,
    rect: Rect,
    plan: &ResizePlan,
    filter: Filter,
    resampler: &mut Resampler,
) -> Result<(), ImageFailure> {
    let ratio_from = from.ratio.unwrap_or((1, 1));
    let ratio_to = to.ratio.unwrap_or((1, 1));
    let shown = plan.shown();
    for (i, ((from_range, from_size), (to_range, to_size))) in from.layout().into_iter().zip(to.layout()).enumerate() {
        let (from_ratio, to_ratio) = if i == 0 { ((1, 1), (1, 1)) } else { (ratio_from, ratio_to) };
        let inner = PixelSize::new(shown.width.div_ceil(to_ratio.0), shown.height.div_ceil(to_ratio.1));
        let rect = chroma_rect(rect, from_ratio, to_ratio, shown, inner);
        let source = &from.data[from_range];
        let out = &mut to.data[to_range];
        if inner == to_size {
            resampler.resize_plane(source, from_size, PixelLayout::Gray, rect, out, inner, filter)?;
        } else {
            let mut part = vec![0; inner.width as usize * inner.height as usize];
            resampler.resize_plane(source, from_size, PixelLayout::Gray, rect, &mut part, inner, filter)?;
            let (left, top) = plan.pad();
            let at = PixelSize::new(left / to_ratio.0, top / to_ratio.1);
            let bordered = plan.output != shown;
            let border = bordered.then_some(if i == 0 { 255 } else { 128 });
            paste(&part, inner, out, to_size, at, border);
        }
    }
    Ok(())
}

/// The rectangle in chroma samples, enlarged if the last output sample extends beyond the picture.
fn chroma_rect(luma: Rect, from: (u32, u32), to: (u32, u32), shown: PixelSize, inner: PixelSize) -> Rect {
    let stretch = |samples: u32, ratio: u32, shown: u32| f64::from(samples * ratio) / f64::from(shown);
    Rect {
        x: luma.x / f64::from(from.0),
        y: luma.y / f64::from(from.1),
        width: luma.width / f64::from(from.0) * stretch(inner.width, to.0, shown.width),
        height: luma.height / f64::from(from.1) * stretch(inner.height, to.1, shown.height),
    }
}

/// Copies `part` into a plane and fills the rest with `border`, or by repeating the edge.
fn paste(part: &[u8], size: PixelSize, out: &mut [u8], out_size: PixelSize, at: PixelSize, border: Option<u8>) {
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
    use crate::tarresize::geometry::{ResizeMode, plan};

    fn flat(size: PixelSize, ratio: Option<(u32, u32)>, values: [u8; 3]) -> YuvPlanes {
        let mut planes = YuvPlanes::default();
        planes.reset(size, ratio);
        for ((range, _), value) in planes.layout().into_iter().zip(values) {
            planes.data[range].fill(value);
        }
        planes
    }

    #[test]
    fn odd_sizes_are_padded_to_whole_chroma_samples() {
        let mut planes = YuvPlanes::default();
        planes.reset(PixelSize::new(5, 3), Some((2, 2)));
        let layout = planes.layout();
        assert_eq!(layout[0], (0..24, PixelSize::new(6, 4)));
        assert_eq!(layout[2], (30..36, PixelSize::new(3, 2)));
        planes.reset(PixelSize::new(5, 3), None);
        assert_eq!(planes.data.len(), 15);
    }

    #[test]
    fn flat_planes_stay_flat_at_odd_sizes_and_ratios() {
        let original = PixelSize::new(37, 23);
        for ratio in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)] {
            for wanted in [5, 8, 17] {
                let plan = plan(original, ResizeMode::KeepRatio, PixelSize::new(wanted, wanted), false);
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
        let plan = plan(PixelSize::new(16, 8), ResizeMode::Border, PixelSize::new(8, 8), false);
        let from = flat(PixelSize::new(16, 8), Some((2, 2)), [10, 20, 30]);
        let mut to = flat(plan.output, Some((2, 2)), [0; 3]);
        let rect = Rect { x: 0.0, y: 0.0, width: 16.0, height: 8.0 };
        scale(&from, &mut to, rect, &plan, Filter::Area, &mut Resampler::default()).unwrap();
        assert_eq!((to.data[0], to.data[2 * 8], to.data[5 * 8 + 7], to.data[6 * 8]), (255, 10, 10, 255));
        assert_eq!(to.data[64..80], [128, 128, 128, 128, 20, 20, 20, 20, 20, 20, 20, 20, 128, 128, 128, 128]);
    }
}
