#include "train/worker/servers/worker_device.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

GradientCopies::GradientCopies(Device& device, Stream& from, std::int64_t floats,
                               std::int64_t state)
    : device_(device),
      from_(from),
      floats_(static_cast<std::size_t>(floats)),
      state_(static_cast<std::size_t>(state)) {
}

GradientCopies::~GradientCopies() {
    if (stream_) {
        try {
            stream_->synchronize();
        } catch (const Error&) {  // the device has failed: nothing is written any more
        }
    }
}

/// Copies of a step that was given up may still be in flight: those of this step follow them on the
/// same stream.
void GradientCopies::begin() {
    if (!stream_) {
        host_ = device_.allocate_host(std::max<std::size_t>((floats_ + state_) * sizeof(float), 1));
        stream_ = device_.create_stream();
    }
    copies_.clear();
}

void GradientCopies::add_statistics(std::span<const float> batch_state) {
    check_invariant(batch_state.size() == state_, "batch statistics have one size");
    stream_->wait_for(*from_.record());
    stream_->copy(host_.floats() + floats_, batch_state.data(), batch_state.size_bytes());
}

void GradientCopies::add(Range range, std::span<const float> gradients) {
    check_invariant(gradients.size() == floats_, "gradients have one size");
    stream_->wait_for(*from_.record());
    for (std::int64_t end = range.end; end > range.begin;) {
        const std::int64_t begin = std::max(range.begin, end - kPiece);
        const auto bytes = static_cast<std::size_t>(end - begin) * sizeof(float);
        stream_->copy(host_.floats() + begin, gradients.data() + begin, bytes);
        copies_.push_back({{begin, end}, stream_->record()});
        end = begin;
    }
}

std::optional<GradientCopies::Range> GradientCopies::next(bool wait) {
    if (copies_.empty() || !(wait || copies_.front().done->done())) {
        return std::nullopt;
    }
    copies_.front().done->wait();
    const Range range = copies_.front().range;
    copies_.pop_front();
    return range;
}

std::span<const float> GradientCopies::gradients() const noexcept {
    return {host_.floats(), floats_};
}

std::span<const float> GradientCopies::statistics() const noexcept {
    return {host_.floats() + floats_, state_};
}

std::span<const float> WorkerDevice::upload(std::span<const float> from) {
    const std::size_t most =
        (replica_.parameters().size() + replica_.state().size()) * sizeof(float);
    check_invariant(from.size_bytes() <= most, "what is uploaded goes into a round's buffer");
    if (uploaded_.bytes() == 0) {
        uploaded_ = replica_.device().allocate(most);
    }
    replica_.stream().copy(uploaded_.data(), from.data(), from.size_bytes());
    return {uploaded_.floats(), from.size()};
}

}  // namespace cohort
