#include "train/coordinator/gathering.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/protocol/complete_transfers.hpp"

namespace cohort {

Gathering::Gathering(const std::vector<ShardRange>& shards)
    : shards_(shards.size()),
      parameters_(static_cast<std::size_t>(shards.back().end)),
      state_(static_cast<std::size_t>(shards.back().state)) {
}

Gathering::~Gathering() {
    for (auto& [id, one] : open_) {
        for (std::size_t i = 0; i < one.parts.size(); ++i) {
            if (one.parts[i] && !one.arrived[i]) {
                keep_for_good(std::shared_ptr<float[]>(std::move(one.parts[i])));
            }
        }
    }
}

Gathering::Open& Gathering::open(std::uint64_t id) {
    Open& one = open_[id];
    one.parts.resize(shards_);
    one.floats.resize(shards_);
    one.arrived.resize(shards_);
    return one;
}

std::span<std::byte> Gathering::accept(const Message& announcement, std::uint64_t bytes) {
    const auto header = decode<GatheredHeader>(announcement.body);
    const auto part = static_cast<std::size_t>(header.part);
    const std::size_t floats = bytes / sizeof(float);
    if (part >= shards_ || floats > parameters_ + state_ || bytes % sizeof(float) != 0) {
        return {};
    }
    auto memory = std::make_unique_for_overwrite<float[]>(floats);  // quick: not zeroed
    const std::span<float> span(memory.get(), floats);
    const std::lock_guard lock(mutex_);
    Open& one = open(header.gather);
    if (one.parts[part] && !one.arrived[part]) {  // from a rank that was lost meanwhile
        keep_for_good(std::shared_ptr<float[]>(std::move(one.parts[part])));
    }
    one.parts[part] = std::move(memory);
    one.floats[part] = floats;
    return std::as_writable_bytes(span);
}

std::optional<Gathered> Gathering::arrived(const Message& announcement) {
    const auto header = decode<GatheredHeader>(announcement.body);
    const auto part = static_cast<std::size_t>(header.part);
    Open complete;
    {
        const std::lock_guard lock(mutex_);
        Open& one = open(header.gather);
        const bool first = std::ranges::count(one.arrived, true) == 0;
        if (part >= shards_ || !one.parts[part] || (!first && one.version != header.version)) {
            fail<PeerError>({.where = "snapshot",
                             .what = "a shard that does not fit the others",
                             .expected = "version " + std::to_string(one.version),
                             .got = "version " + std::to_string(header.version)});
        }
        one.version = header.version;
        one.arrived[part] = true;
        if (std::ranges::count(one.arrived, false) > 0) {
            return std::nullopt;
        }
        complete = std::move(one);
        open_.erase(header.gather);
    }
    std::vector<float> all;
    all.reserve(parameters_ + state_);
    for (std::size_t i = 0; i < shards_; ++i) {
        all.insert(all.end(), complete.parts[i].get(),
                   complete.parts[i].get() + complete.floats[i]);
        complete.parts[i].reset();
    }
    if (all.size() != parameters_ + state_) {
        fail<PeerError>({.where = "snapshot",
                         .what = "the shards are not all of the parameters",
                         .expected = std::to_string(parameters_ + state_),
                         .got = std::to_string(all.size())});
    }
    const auto state = all.end() - static_cast<std::ptrdiff_t>(state_);
    Gathered whole{.id = header.gather,
                   .version = complete.version,
                   .parameters = {},
                   .state = {state, all.end()}};
    all.resize(parameters_);
    whole.parameters = std::move(all);
    return whole;
}

std::vector<int> Gathering::coming() {
    const std::lock_guard lock(mutex_);
    std::vector<int> parts;
    for (const auto& [id, one] : open_) {
        for (std::size_t i = 0; i < one.parts.size(); ++i) {
            if (one.parts[i] && !one.arrived[i]) {
                parts.push_back(static_cast<int>(i));
            }
        }
    }
    return parts;
}

std::vector<int> Gathering::missing(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const Open& one = open(id);
    std::vector<int> parts;
    for (std::size_t i = 0; i < shards_; ++i) {
        if (!one.arrived[i]) {
            parts.push_back(static_cast<int>(i));
        }
    }
    return parts;
}

}  // namespace cohort
