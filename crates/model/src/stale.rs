//! The stale marker: one particular NaN.

/// The bits of the stale marker: the NaN that Prometheus writes at the end of a series.
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Whether `value` is the stale marker. Other NaNs are not.
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}
