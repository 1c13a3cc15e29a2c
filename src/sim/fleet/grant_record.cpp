#include "sim/fleet/grant_record.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace cohort {

void GrantRecord::resume(FleetGrants before) {
    over_ = std::move(before);
    over_.returned = over_.granted;
}

void GrantRecord::book(const RoomLedger& ledger, double now_s) {
    const double passed_s = now_s - std::exchange(booked_s_, now_s);
    for (const auto& [asker, grant] : ledger.grants()) {
        FleetGrant& record =
            open_.try_emplace(asker, FleetGrant{.job = asker, .from_s = now_s}).first->second;
        record.weight = std::max(record.weight, grant.weight);
        record.gained_s += grant.gain * passed_s;
        for (const auto& [giver, loss] : grant.givers) {
            record.given_s[giver] += loss * passed_s;
        }
    }
    for (auto it = open_.begin(); it != open_.end();) {
        const bool goes_on = ledger.grants().contains(it->first);
        if (!goes_on) {
            it->second.to_s = now_s;
            over_.list.push_back(std::move(it->second));
        }
        it = goes_on ? std::next(it) : open_.erase(it);
    }
}

void GrantRecord::refused(FleetRefusal refusal) {
    std::vector<FleetRefusal>& all = over_.refused_plans;
    const auto before = std::ranges::find_if(all, [&](const FleetRefusal& one) {
        return one.job == refusal.job && one.from == refusal.from && one.to == refusal.to;
    });
    if (before != all.end()) {
        ++before->times;
    } else {
        all.push_back(std::move(refusal));
    }
}

void GrantRecord::report(FleetResult& result, const RoomLedger& ledger, double now_s) {
    book(ledger, now_s);
    result.grants = over_;
    result.grants->granted += ledger.counts().granted;
    result.grants->refused += ledger.counts().refused;
    result.grants->returned += ledger.counts().returned;
    for (const auto& [asker, grant] : open_) {
        result.grants->list.push_back(grant);
        result.grants->list.back().to_s = now_s;
    }
    for (FleetJobResult& job : result.jobs) {
        job.grants = 0;
        job.room_taken_s = job.room_given_s = 0;
    }
    for (const FleetGrant& grant : result.grants->list) {
        FleetJobResult& asker = result.jobs[static_cast<std::size_t>(grant.job)];
        ++*asker.grants;
        *asker.room_taken_s += grant.gained_s;
        for (const auto& [giver, seconds] : grant.given_s) {
            *result.jobs[static_cast<std::size_t>(giver)].room_given_s += seconds;
        }
    }
}

}  // namespace cohort
