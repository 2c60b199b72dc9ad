//! JPEG XL, decoded with jxl-oxide.

use jxl_oxide::{AllocTracker, EnumColourEncoding, InitializeResult, JxlImage, RenderingIntent};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::header::MAX_PIXELS;
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::DecodedPicture;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// What the header of a file says.
pub struct JxlHeader {
    pub size: PixelSize,
    pub frames: u64,
    pub icc: Option<Vec<u8>>,
    channels: u64,
}

/// Memory for the header, whose ICC profile may be compressed.
const HEADER_MEMORY: usize = 16 << 20;

impl JxlHeader {
    /// Reads the header of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, ImageFailure> {
        let tracker = AllocTracker::with_limit(HEADER_MEMORY);
        let mut start = JxlImage::builder().alloc_tracker(tracker).build_uninit();
        start.feed_bytes(bytes).map_err(ImageFailure::decode)?;
        let InitializeResult::Initialized(image) = start.try_init().map_err(ImageFailure::decode)? else {
            return Err(ImageFailure::truncated("unexpected end of data"));
        };
        let size = PixelSize::new(image.width(), image.height());
        if size.area() == 0 {
            return Err(ImageFailure::decode("width or height is 0"));
        }
        let metadata = &image.image_header().metadata;
        // Colours that are not XYB stay in the space of the profile.
        let icc = image.original_icc().filter(|_| !metadata.xyb_encoded).map(<[u8]>::to_vec);
        let channels = 3 + metadata.ec_info.len() as u64;
        Ok(JxlHeader { size, frames: if metadata.animation.is_some() { 2 } else { 1 }, icc, channels })
    }

    /// The memory that decoding needs besides the picture, which also is the limit that the decoder gets: several copies
    /// of all samples as 32-bit floats.
    pub fn decoding_bytes(&self) -> u64 {
        const PER_SAMPLE: u64 = 32;
        self.size.area() * PER_SAMPLE * self.channels + (32 << 20)
    }

    /// Decodes the first frame.
    pub fn decode(&self, bytes: &[u8]) -> Result<DecodedPicture, ImageFailure> {
        let limit = usize::try_from(self.decoding_bytes()).unwrap_or(usize::MAX);
        let builder = JxlImage::builder().alloc_tracker(AllocTracker::with_limit(limit));
        let mut image = builder.read(bytes).map_err(ImageFailure::decode)?;
        if self.icc.is_none() {
            image.request_color_encoding(EnumColourEncoding::srgb(RenderingIntent::Relative));
        }
        if image.num_loaded_keyframes() == 0 {
            return Err(ImageFailure::truncated("unexpected end of data"));
        }
        check_layers(&image)?;
        let frame = image.render_frame(0).map_err(ImageFailure::decode)?;
        let mut stream = frame.stream();
        let layout = match (image.pixel_format().is_grayscale(), image.pixel_format().has_black(), stream.channels()) {
            (true, _, 1) => PixelLayout::Gray,
            (true, _, 2) => PixelLayout::GrayAlpha,
            (false, false, 3) => PixelLayout::Rgb,
            (false, false, 4) => PixelLayout::Rgba,
            (false, true, 4) => PixelLayout::Cmyk,
            (_, _, channels) => {
                let detail = format!("JPEG XL with {channels} channels");
                return Err(ImageFailure::new(ImageFailureCode::Unsupported, detail));
            }
        };
        let mut picture = Picture::new(PixelSize::new(stream.width(), stream.height()), layout);
        if picture.size != self.size {
            return Err(ImageFailure::decode("JPEG XL frame of another size than its header"));
        }
        stream.write_to_buffer(&mut picture.data);
        Ok(DecodedPicture { picture, damage: None })
    }
}

/// Refuses an image whose first shown frame is composed of layers with too many pixels in total; a small layer takes the
/// time of the whole image, too.
fn check_layers(image: &JxlImage) -> Result<(), ImageFailure> {
    let whole = PixelSize::new(image.width(), image.height()).area();
    let (mut count, mut pixels) = (0, 0u64);
    for header in (0..image.num_loaded_frames()).map_while(|i| image.frame(i)).map(|frame| frame.header()) {
        count += 1;
        pixels = pixels.saturating_add(PixelSize::new(header.width, header.height).area().max(whole));
        if header.is_keyframe() {
            break;
        }
    }
    if pixels > MAX_PIXELS {
        return Err(ImageFailure::new(ImageFailureCode::Bomb, format!("{count} layers of {pixels} pixels in total")));
    }
    Ok(())
}
