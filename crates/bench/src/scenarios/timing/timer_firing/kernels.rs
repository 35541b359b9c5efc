//! The seven actors: small kernels on 32-bit floats, each checked against its definition.

use std::f32::consts::TAU;

/// Number of points of the Fourier transform.
const POINTS: usize = 256;

/// Data that the actors read and write.
pub(super) struct Signals {
    samples: [f32; 64],
    factors: [f32; 64],
    taps: [f32; 16],
    re: [f32; POINTS],
    im: [f32; POINTS],
    real: [f32; POINTS],
    /// Cosines and sines of the first half turn.
    twiddles: [(f32, f32); POINTS / 2],
    result: f32,
}

impl Signals {
    pub(super) fn new() -> Self {
        let wave = |index: usize, points: usize| (TAU * index as f32 / points as f32).sin();
        Self {
            samples: std::array::from_fn(|index| wave(index, 64)),
            factors: [0.999_9; 64],
            taps: [1.0 / 16.0; 16],
            re: std::array::from_fn(|index| wave(index * 8, POINTS)),
            im: [0.0; POINTS],
            real: [0.0; POINTS],
            twiddles: std::array::from_fn(|index| {
                let angle = -TAU * index as f32 / POINTS as f32;
                (angle.cos(), angle.sin())
            }),
            result: 0.0,
        }
    }

    /// Returns all signals in the layout of the guest's memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let twiddles = self.twiddles.iter().flat_map(|(cos, sin)| [*cos, *sin]);
        let small = self.samples.iter().chain(&self.factors).chain(&self.taps);
        let all = small.chain(&self.re).chain(&self.im).chain(&self.real).copied().chain(twiddles);
        all.chain([self.result]).flat_map(f32::to_le_bytes).collect()
    }

    pub(super) fn mul(&mut self) {
        self.samples.iter_mut().zip(&self.factors).for_each(|(sample, factor)| *sample *= factor);
    }

    pub(super) fn add(&mut self) {
        self.result += self.samples[0];
    }

    pub(super) fn fir(&mut self) {
        self.result = self.samples.iter().zip(&self.taps).map(|(sample, tap)| sample * tap).sum();
    }

    pub(super) fn mean(&mut self) {
        self.result = self.samples.iter().sum::<f32>() / 64.0;
    }

    pub(super) fn rms(&mut self) {
        self.result = (self.samples.iter().map(|sample| sample * sample).sum::<f32>() / 64.0).sqrt();
    }

    pub(super) fn c2r(&mut self) {
        self.real.copy_from_slice(&self.re);
    }

    /// Transforms the signal in place, scaled by one over the square root of its length so that it never grows.
    pub(super) fn fft(&mut self) {
        for index in 0..POINTS {
            let other = index.reverse_bits() >> (usize::BITS - POINTS.trailing_zeros());
            if other > index {
                self.re.swap(index, other);
                self.im.swap(index, other);
            }
        }
        let mut half = 1;
        while half < POINTS {
            let step = POINTS / (2 * half);
            for start in (0..POINTS).step_by(2 * half) {
                for index in 0..half {
                    let (cos, sin) = self.twiddles[index * step];
                    let (near, far) = (start + index, start + index + half);
                    let re = self.re[far] * cos - self.im[far] * sin;
                    let im = self.re[far] * sin + self.im[far] * cos;
                    (self.re[far], self.im[far]) = (self.re[near] - re, self.im[near] - im);
                    self.re[near] += re;
                    self.im[near] += im;
                }
            }
            half *= 2;
        }
        for value in self.re.iter_mut().chain(&mut self.im) {
            *value /= 16.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f32, wanted: f32) -> bool {
        (value - wanted).abs() < 1e-3
    }

    #[test]
    fn the_transform_is_the_one_of_its_definition() {
        let mut signals = Signals::new();
        signals.re = std::array::from_fn(|index| ((index * index) % 97) as f32 / 97.0);
        let before = signals.re;

        signals.fft();

        for bin in [0, 1, 7, 128, 255] {
            let sum = |part: fn(f32) -> f32| {
                let term = |(index, value): (usize, &f32)| {
                    value * part(-TAU * ((index * bin) % POINTS) as f32 / POINTS as f32)
                };
                before.iter().enumerate().map(term).sum::<f32>() / 16.0
            };
            assert!(near(signals.re[bin], sum(f32::cos)) && near(signals.im[bin], sum(f32::sin)), "bin {bin}");
        }
    }

    #[test]
    fn the_small_ones_do_what_they_are_called() {
        let mut signals = Signals::new();
        signals.samples = [2.0; 64];

        signals.mul();
        assert!(near(signals.samples[63], 1.999_8));
        signals.mean();
        assert!(near(signals.result, 1.999_8));
        signals.rms();
        assert!(near(signals.result, 1.999_8));
        signals.fir();
        assert!(near(signals.result, 1.999_8));
        signals.add();
        assert!(near(signals.result, 2.0 * 1.999_8));
        signals.c2r();
        assert!(signals.real.iter().zip(&signals.re).all(|(real, re)| near(*real, *re)));
    }
}
