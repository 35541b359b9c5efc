//! Statistics for reports: median with its confidence interval, and variation. Trends and ratios have files of their
//! own.

mod basic;
mod resample;
mod trend;

pub(crate) use basic::{
    coefficient_of_variation, median, median_confidence, median_interval, normal_cdf, normal_quantile, sorted,
};
pub(crate) use resample::{Ratio, ratio_of, ratio_of_pairs};
pub(crate) use trend::{mann_kendall, theil_sen, trend_p};
