#include "train/server/server_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

std::size_t bytes_of(std::size_t floats) {
    return floats * sizeof(float);
}

Buffer host_floats(Device& host, const ShardRange& range) {
    constexpr std::size_t kLeast = 64;
    return host.allocate(std::max(bytes_of(static_cast<std::size_t>(range.floats())), kLeast));
}

/// A file has them in the order of their names. Null: there is none of that name.
const std::vector<float>* find_slot(const ShardSnapshot& snapshot, const std::string& name) {
    const auto found = std::ranges::find(snapshot.optimizer_slots, name,
                                         [](const auto& slot) { return slot.first; });
    return found == snapshot.optimizer_slots.end() ? nullptr : &found->second;
}

void check_fit(const ShardSnapshot& snapshot, const ShardRange& range,
               const std::vector<OptimizerSlot>& slots) {
    const auto fits = [](const std::vector<float>& values, std::int64_t floats) {
        return static_cast<std::int64_t>(values.size()) == floats;
    };
    const bool same = snapshot.begin == range.begin && snapshot.end == range.end &&
                      fits(snapshot.parameters, range.parameters()) &&
                      fits(snapshot.state, range.state) &&
                      slots.size() == snapshot.optimizer_slots.size() &&
                      std::ranges::all_of(slots, [&](const OptimizerSlot& slot) {
                          const std::vector<float>* saved = find_slot(snapshot, slot.name);
                          return saved != nullptr && fits(*saved, range.parameters());
                      });
    if (!same) {
        fail<FileError>({.where = "checkpoint",
                         .what = "it is of another model, range or optimizer",
                         .expected = fmt::format("[{}, {}), state {}, {} optimizer buffers",
                                                 range.begin, range.end, range.state, slots.size()),
                         .got = fmt::format("[{}, {}), state {}, {} optimizer buffers",
                                            snapshot.begin, snapshot.end, snapshot.state.size(),
                                            snapshot.optimizer_slots.size())});
    }
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

void ShardDevice::apply(std::int64_t at, std::span<float> theta) {
    check_invariant(theta.size() <= piece_, "a piece fits the memory for it");
    const std::span<float> here(theta_.floats() + at, theta.size());
    const std::span<const float> gradient(gradient_.floats(), theta.size());
    stream_->copy(gradient_.floats(), host_gradient_.floats(), theta.size_bytes());
    optimizer_->apply(at, here, gradient);
    stream_->copy(theta.data(), here.data(), theta.size_bytes());
    stream_->synchronize();
}

LookAhead ShardDevice::look_ahead(std::int64_t at, std::int64_t n) {
    LookAhead state =
        optimizer_->look_ahead().part(static_cast<std::size_t>(at), static_cast<std::size_t>(n));
    const auto fetch = [this](std::span<const float>& slot, std::vector<float>& here) {
        here.resize(slot.size());
        stream_->copy(here.data(), slot.data(), slot.size_bytes());
        slot = here;
    };
    fetch(state.first, first_);
    fetch(state.second, second_);
    stream_->synchronize();
    return state;
}

ShardStore::ShardStore(const Graph& graph, const ShardRange& range,
                       const OptimizerOptions& optimizer, Device& host, Stream& stream,
                       std::unique_ptr<Device> device)
    : graph_(graph),
      host_(host),
      stream_(stream),
      options_(optimizer),
      range_(range),
      theta_(host_floats(host, range)),
      optimizer_(device ? nullptr
                        : make_optimizer(optimizer, graph.parameters(), range.begin, range.end,
                                         host, stream)),
      other_(device ? std::make_unique<ShardDevice>(std::move(device), graph.parameters(), range,
                                                    optimizer)
                    : nullptr) {
}

void ShardStore::resize(const ShardRange& range) {
    range_ = range;
    theta_ = host_floats(host_, range);
    if (other_) {
        std::unique_ptr<Device> device = other_->take_device();
        other_.reset();
        other_ =
            std::make_unique<ShardDevice>(std::move(device), graph_.parameters(), range, options_);
    } else {
        optimizer_ =
            make_optimizer(options_, graph_.parameters(), range.begin, range.end, host_, stream_);
    }
}

std::span<const float> ShardStore::parameters() const noexcept {
    return {theta_.floats(), static_cast<std::size_t>(range_.parameters())};
}
std::span<const float> ShardStore::state() const noexcept {
    return {theta_.floats() + range_.parameters(), static_cast<std::size_t>(range_.state)};
}
std::span<float> ShardStore::parameters() noexcept {
    return {theta_.floats(), static_cast<std::size_t>(range_.parameters())};
}
std::span<float> ShardStore::state() noexcept {
    return {theta_.floats() + range_.parameters(), static_cast<std::size_t>(range_.state)};
}

LookAhead ShardStore::look_ahead(std::int64_t at, std::int64_t n) const {
    return other_ ? other_->look_ahead(at, n)
                  : optimizer_->look_ahead().part(static_cast<std::size_t>(at),
                                                  static_cast<std::size_t>(n));
}

/// The device's parameters, after the host's have changed.
void ShardStore::fill_device() {
    if (other_) {
        other_->set_parameters(std::as_const(*this).parameters());
    }
}

void ShardStore::initialise(std::uint64_t seed) {
    std::vector<float> all(static_cast<std::size_t>(graph_.parameters().total()));
    std::vector<float> all_state(static_cast<std::size_t>(graph_.state().total()));
    graph_.initialise(seed, all, all_state);
    std::copy(all.begin() + range_.begin, all.begin() + range_.end, parameters().begin());
    std::copy_n(all_state.begin(), range_.state, state().begin());
    fill_device();
}

void ShardStore::restore(const ShardSnapshot& snapshot) {
    const std::vector<OptimizerSlot> slots = optimizer().slots();
    check_fit(snapshot, range_, slots);
    std::copy(snapshot.parameters.begin(), snapshot.parameters.end(), parameters().begin());
    std::copy(snapshot.state.begin(), snapshot.state.end(), state().begin());
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::vector<float>& values = *find_slot(snapshot, slots[i].name);
        if (other_) {
            other_->set_slot(i, values);
        } else {
            std::copy(values.begin(), values.end(), slots[i].values.begin());
        }
    }
    optimizer().restore_scalars(snapshot.optimizer_scalars);
    fill_device();
}

ShardSnapshot ShardStore::capture(std::int64_t version) {
    ShardSnapshot snapshot{.part = range_.part,
                           .begin = range_.begin,
                           .end = range_.end,
                           .version = version,
                           .parameters = {parameters().begin(), parameters().end()},
                           .state = {state().begin(), state().end()}};
    const std::vector<OptimizerSlot> slots = optimizer().slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
        std::vector<float> values(slots[i].values.size());
        if (other_) {
            other_->get_slot(i, values);
        } else {
            std::copy(slots[i].values.begin(), slots[i].values.end(), values.begin());
        }
        snapshot.optimizer_slots.emplace_back(slots[i].name, std::move(values));
    }
    for (const OptimizerScalar& one : optimizer().scalars()) {
        snapshot.optimizer_scalars.emplace_back(one.name, one.value);
    }
    return snapshot;
}

void ShardStore::apply_on_device(std::int64_t at, std::int64_t n) {
    other_->apply(at,
                  parameters().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)));
}

}  // namespace cohort
