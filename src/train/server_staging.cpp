#include "server_staging.hpp"

#include <fmt/format.h>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::string describe(const PushId& push) {
    return fmt::format("push {} of worker {} (incarnation {})", push.sequence, push.worker,
                       push.incarnation);
}

}  // namespace

PushStaging::PushStaging(Device& device, std::int64_t floats)
    : pool_(device, floats), bytes_(static_cast<std::size_t>(floats) * sizeof(float)) {
}

std::span<std::byte> PushStaging::accept(const Message& announcement, std::uint64_t bytes) {
    const PushId push = decode<PushHeader>(announcement.body).push;
    const std::lock_guard lock(mutex_);
    Entry& entry = pushes_[push];
    entry.repeated = entry.bytes != 0;
    entry.bytes = bytes;
    if (entry.discarded || entry.repeated || bytes != bytes_) {
        return {};
    }
    entry.data = pool_.take();
    return std::as_writable_bytes(
        std::span(entry.data.get(), static_cast<std::size_t>(pool_.floats())));
}

bool PushStaging::arrived(PushId push) {
    const std::lock_guard lock(mutex_);
    const auto at = pushes_.find(push);
    check_invariant(at != pushes_.end(), "a push arrives after its announcement");
    Entry& entry = at->second;
    if (entry.bytes != bytes_) {
        fail<PeerError>({.where = describe(push),
                         .what = "it does not fit the shard",
                         .expected = fmt::format("{} bytes", bytes_),
                         .got = std::to_string(entry.bytes),
                         .hint = "the same options on all ranks"});
    }
    if (entry.repeated) {
        fail<PeerError>({.where = describe(push), .what = "it came twice"});
    }
    if (entry.discarded) {
        pushes_.erase(at);
        return false;
    }
    entry.here = true;
    return true;
}

void PushStaging::discard(PushId push) {
    const std::lock_guard lock(mutex_);
    Entry& entry = pushes_[push];
    if (entry.here) {
        pushes_.erase(push);
    } else {
        entry.discarded = true;
    }
}

std::vector<int> PushStaging::coming() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> workers;
    for (const auto& [push, entry] : pushes_) {
        if (entry.data != nullptr && !entry.here) {
            workers.push_back(push.worker);
        }
    }
    return workers;
}

void PushStaging::forget(PushId push) {
    const std::lock_guard lock(mutex_);
    pushes_.erase(push);
}

std::shared_ptr<const float> PushStaging::take(PushId push) {
    const std::lock_guard lock(mutex_);
    const auto at = pushes_.find(push);
    if (at == pushes_.end() || !at->second.here) {
        fail<PeerError>({.where = describe(push),
                         .what = "an update wants it and it is not here",
                         .hint = "this is a fault of the program"});
    }
    std::shared_ptr<const float> data = std::move(at->second.data);
    pushes_.erase(at);
    return data;
}

}  // namespace cohort
