#include "data/dataset/dataset_statistics.hpp"

#include <cmath>
#include <cstring>

namespace cohort {

ChannelStatistics::ChannelStatistics(std::int64_t channels, std::int64_t elements_per_channel,
                                     SampleType type)
    : channels_(static_cast<std::size_t>(channels)),
      plane_(static_cast<std::size_t>(elements_per_channel)),
      type_(type),
      mean_(channels_, 0.0),
      squares_(channels_, 0.0) {
}

void ChannelStatistics::add(std::span<const std::byte> samples) {
    if (type_ == SampleType::kU8) {
        add_typed<std::uint8_t>(samples);
    } else {
        add_typed<float>(samples);
    }
}

template <class Stored>
void ChannelStatistics::add_typed(std::span<const std::byte> samples) {
    const std::size_t sample_bytes = channels_ * plane_ * sizeof(Stored);
    const std::size_t count = samples.size() / sample_bytes;
    if (count == 0) {
        return;
    }
    std::vector<Stored> plane(plane_);
    const auto for_each_value = [&](std::size_t channel, auto&& use) {
        for (std::size_t sample = 0; sample < count; ++sample) {
            const std::byte* from =
                samples.data() + sample * sample_bytes + channel * plane_ * sizeof(Stored);
            std::memcpy(plane.data(), from, plane_ * sizeof(Stored));
            for (const Stored value : plane) {
                use(static_cast<double>(value));
            }
        }
    };
    const double added = static_cast<double>(count) * static_cast<double>(plane_);
    const double total = count_ + added;
    for (std::size_t channel = 0; channel < channels_; ++channel) {
        double sum = 0;
        for_each_value(channel, [&](double value) { sum += value; });
        const double mean = sum / added;
        double squares = 0;
        for_each_value(channel, [&](double value) { squares += (value - mean) * (value - mean); });
        const double shift = mean - mean_[channel];
        squares_[channel] += squares + shift * shift * count_ * added / total;
        mean_[channel] += shift * added / total;
    }
    count_ = total;
}

std::vector<double> ChannelStatistics::standard_deviation(double of_constant) const {
    std::vector<double> result(channels_, of_constant);
    for (std::size_t channel = 0; channel < channels_; ++channel) {
        const double variance = count_ > 0 ? squares_[channel] / count_ : 0.0;
        if (static_cast<float>(std::sqrt(variance)) > 0.0F) {
            result[channel] = std::sqrt(variance);
        }
    }
    return result;
}

}  // namespace cohort
