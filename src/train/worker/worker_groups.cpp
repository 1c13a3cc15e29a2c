#include "train/worker/worker_groups.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr std::size_t kKeep = 4;

}  // namespace

GroupExchanges::GroupExchanges(AllReduceFactory make, std::int64_t floats, AllReduceScope scope)
    : make_(std::move(make)), floats_(floats), scope_(std::move(scope)) {
}

std::list<GroupExchanges::Entry>::iterator GroupExchanges::find(const WorkOrder& work) {
    return std::find_if(entries_.begin(), entries_.end(), [&work](const Entry& entry) {
        return entry.generation == work.generation && entry.ranks == work.group;
    });
}

GroupExchanges::Turn GroupExchanges::turn(const WorkOrder& work) {
    check_invariant(static_cast<bool>(make_), "a worker of a group can make exchanges");
    auto found = find(work);
    if (found == entries_.end()) {
        try {
            entries_.push_front(
                {.generation = work.generation,
                 .ranks = work.group,
                 .exchange = make_({work.group.begin(), work.group.end()}, floats_, scope_),
                 .round = 1});
        } catch (const RingBroken&) {
            return {};
        }
        found = entries_.begin();
        while (entries_.size() > kKeep) {
            entries_.pop_back();
        }
    }
    entries_.splice(entries_.begin(), entries_, found);
    Entry& entry = entries_.front();
    const Turn turn{.exchange = entry.exchange.get(), .round = entry.round};
    entry.round += static_cast<std::uint64_t>(work.steps);
    return turn;
}

void GroupExchanges::broke(const WorkOrder& work) {
    if (const auto found = find(work); found != entries_.end()) {
        entries_.erase(found);
    }
}

}  // namespace cohort
