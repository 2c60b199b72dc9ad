//! Decoded pixels and everything that is done to them: resampling, blurring, orientation, colour conversion.

pub mod area_filter;
pub mod area_simd;
pub mod blur;
pub mod color_profile;
pub mod orientation;
pub mod picture;
pub mod resample;
pub mod yuv;
