// Resampling along one side after the other.
#include "data/import/image_file.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

namespace {

/// The pixels of the old side that make one of the new, and their weights, which add up to 1.
struct Taps {
    std::int64_t first = 0;
    std::vector<double> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = std::max(scale, 1.0);
    std::vector<Taps> all;
    for (std::int64_t i = 0; i < to; ++i) {
        const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
        Taps taps{.first = std::max<std::int64_t>(
                      static_cast<std::int64_t>(std::floor(centre - reach)) + 1, 0),
                  .weights = {}};
        const auto last = std::min(static_cast<std::int64_t>(std::ceil(centre + reach)), from);
        double sum = 0;
        for (std::int64_t j = taps.first; j < last; ++j) {
            const double weight = 1 - std::abs(static_cast<double>(j) - centre) / reach;
            taps.weights.push_back(weight);
            sum += weight;
        }
        for (double& weight : taps.weights) {
            weight /= sum;
        }
        all.push_back(std::move(taps));
    }
    return all;
}

/// [outer, from, inner] to [outer, to, inner].
template <class T>
std::vector<double> resample(const std::vector<T>& values, std::int64_t from, std::int64_t to,
                             std::int64_t inner) {
    const std::vector<Taps> taps = taps_of(from, to);
    const auto stride = static_cast<std::size_t>(inner);
    std::vector<double> result;
    result.reserve(values.size() / static_cast<std::size_t>(from) * static_cast<std::size_t>(to));
    for (std::size_t begin = 0; begin < values.size();
         begin += stride * static_cast<std::size_t>(from)) {
        for (const Taps& each : taps) {
            for (std::size_t k = 0; k < stride; ++k) {
                double sum = 0;
                std::size_t at = begin + static_cast<std::size_t>(each.first) * stride + k;
                for (const double weight : each.weights) {
                    sum += weight * static_cast<double>(values[at]);
                    at += stride;
                }
                result.push_back(sum);
            }
        }
    }
    return result;
}

}  // namespace

Image resized(const Image& image, std::int64_t height, std::int64_t width) {
    if (height == image.height && width == image.width) {
        return image;
    }
    const std::vector<double> wide = resample(image.pixels, image.width, width, image.channels);
    const std::vector<double> all = resample(wide, image.height, height, width * image.channels);
    Image result{.channels = image.channels, .height = height, .width = width, .pixels = {}};
    result.pixels.resize(all.size());
    std::ranges::transform(all, result.pixels.begin(), [](double value) {
        return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
    });
    return result;
}

std::vector<std::uint8_t> channels_first(const Image& image) {
    const auto pixels = static_cast<std::size_t>(image.height * image.width);
    const auto channels = static_cast<std::size_t>(image.channels);
    std::vector<std::uint8_t> planes(image.pixels.size());
    for (std::size_t i = 0; i < image.pixels.size(); ++i) {
        planes[i % channels * pixels + i / channels] = image.pixels[i];
    }
    return planes;
}

}  // namespace cohort
