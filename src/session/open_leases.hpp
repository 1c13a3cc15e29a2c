#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cohort/data/lease.hpp"
#include "cohort/sched/reports.hpp"
#include "session/lease_order.hpp"

namespace cohort {

/// The leases that workers hold, and what became of all others. Pure.
class OpenLeases {
public:
    /// @param earlier  accounts of the parts of the run before this one
    OpenLeases(LeaseLedger ledger, int workers, const SampleAccounts& earlier);

    /// Gives the worker a new lease of at most so many samples; none when the ledger has no
    /// samples left to give.
    [[nodiscard]] std::optional<LeaseOrder> take(int worker, std::int64_t samples);
    /// The oldest lease of a worker that no round has claimed yet; claims it.
    [[nodiscard]] std::optional<LeaseOrder> claim(int worker);
    /// A lease that some worker holds; null for any other number.
    [[nodiscard]] LeaseOrder* find(std::uint64_t lease);
    [[nodiscard]] const LeaseOrder* find(std::uint64_t lease) const;
    /// The first lease that a worker has not pushed; null: it has pushed all of them.
    [[nodiscard]] const LeaseOrder* oldest_unpushed(int worker) const;

    /// The gradient of a lease has been received. Nothing happens when nobody holds the lease.
    void pushed(std::uint64_t lease);
    void applied(std::uint64_t lease);
    /// A lease that returns because the run stops gets its old place in the order back.
    void returned(std::uint64_t lease, ReturnReason reason);
    /// All leases return: the run ends.
    void return_all();

    /// Leases that a worker holds, oldest first.
    [[nodiscard]] std::vector<std::uint64_t> held_leases(int worker) const;
    [[nodiscard]] std::size_t held(int worker) const { return held_.at(index(worker)).size(); }
    /// Leases that a worker, or all workers together, hold and have not pushed.
    [[nodiscard]] std::size_t unpushed(int worker) const { return unpushed_.at(index(worker)); }
    [[nodiscard]] std::size_t unpushed() const noexcept { return all_unpushed_; }
    /// The highest number given out.
    [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }
    [[nodiscard]] const LeaseLedger& ledger() const noexcept { return ledger_; }
    /// Accounts of the whole run, and of this part of it.
    [[nodiscard]] SampleAccounts accounts() const;
    [[nodiscard]] SampleAccounts part_accounts() const;

private:
    struct Held {
        LeaseOrder order;
        bool claimed = false;
        bool pushed = false;
    };
    [[nodiscard]] static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }
    [[nodiscard]] Held* held_lease(std::uint64_t lease);
    Held drop(std::uint64_t lease);

    LeaseLedger ledger_;
    std::int64_t applied_before_;         ///< in earlier parts
    std::vector<std::deque<Held>> held_;  ///< by worker, oldest first
    std::vector<std::size_t> unpushed_;   ///< by worker
    std::size_t all_unpushed_ = 0;
    std::map<std::uint64_t, int> worker_of_;  ///< holder of each lease
    std::uint64_t newest_ = 0;
    SampleAccounts earlier_;
    SampleAccounts now_;  ///< returned in this part, by reason
};

}  // namespace cohort
