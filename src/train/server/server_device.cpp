#include "train/server/server_device.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/run/train_parts.hpp"

namespace cohort {
namespace {

std::size_t bytes_of(std::size_t floats) {
    return floats * sizeof(float);
}

}  // namespace

std::unique_ptr<Device> make_shard_device(const std::string& option, const RankMap& map,
                                          int server) {
    const std::string name = device_of_this_rank(option, map, map.rank_of_server(server));
    return name == "cpu" ? nullptr : make_device(name, 1);
}

ShardDevice::ShardDevice(std::unique_ptr<Device> device, const FlatLayout& layout,
                         const ShardRange& range, const OptimizerOptions& optimizer)
    : device_(std::move(device)),
      stream_(device_->create_stream()),
      piece_(static_cast<std::size_t>(
          std::clamp<std::int64_t>(range.parameters(), FlatLayout::kAlignment, kPiece))),
      theta_(device_->allocate(
          bytes_of(std::max(static_cast<std::size_t>(range.parameters()), piece_)))),
      gradient_(device_->allocate(bytes_of(piece_))),
      host_gradient_(device_->allocate_host(bytes_of(piece_))),
      optimizer_(make_optimizer(optimizer, layout, range.begin, range.end, *device_, *stream_)) {
}

std::span<float> ShardDevice::gradient() const noexcept {
    return {host_gradient_.floats(), piece_};
}

void ShardDevice::copy(float* to, std::span<const float> from) {
    stream_->copy(to, from.data(), from.size_bytes());
    stream_->synchronize();
}

void ShardDevice::set_parameters(std::span<const float> values) {
    check_invariant(values.size_bytes() <= theta_.bytes(), "parameters of this shard");
    copy(theta_.floats(), values);
}

void ShardDevice::set_slot(std::size_t index, std::span<const float> values) {
    copy(optimizer_->slots().at(index).values.data(), values);
}

void ShardDevice::get_slot(std::size_t index, std::span<float> values) {
    const std::span<float> from = optimizer_->slots().at(index).values;
    copy(values.data(), from.first(values.size()));
}

void ShardDevice::apply(std::int64_t at, std::span<float> theta, std::span<float> first_slot) {
    check_invariant(theta.size() <= piece_, "a piece fits the memory for it");
    const std::span<float> here(theta_.floats() + at, theta.size());
    const std::span<const float> gradient(gradient_.floats(), theta.size());
    stream_->copy(gradient_.floats(), host_gradient_.floats(), theta.size_bytes());
    optimizer_->apply(at, here, gradient);
    stream_->copy(theta.data(), here.data(), theta.size_bytes());
    if (!first_slot.empty()) {
        const std::span<float> slot = optimizer_->slots().front().values;
        stream_->copy(first_slot.data(), slot.data() + at, first_slot.size_bytes());
    }
    stream_->synchronize();
}

}  // namespace cohort
