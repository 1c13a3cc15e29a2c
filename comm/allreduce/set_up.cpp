// All members' records at all members: every record goes to the first member, which sends all of
// them to every other member. The communication thread moves them step by step, so that a missing
// member is named, and nothing else on this rank has to wait for it. If a member is lost
// meanwhile, the others give up; messages that are still in flight are abandoned.
#include "comm/allreduce/set_up.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "comm/base/communicators.hpp"
#include "comm/base/futex.hpp"

namespace cohort {
namespace {

// Tags on the ring communicator: this and the next. All-reduces of one member set are set up one
// after the other, and messages between two ranks keep their order. A set-up that was given up
// leaves messages behind: none with the tag of a later one, since a member was lost in between.
constexpr std::uint64_t kFirstTag = std::uint64_t{1} << 30;
constexpr std::uint64_t kTagPairs = std::uint64_t{1} << 29;
static_assert(kFirstTag + 2 * kTagPairs - 1 <= static_cast<std::uint64_t>(INT_MAX));
static_assert(std::is_trivially_copyable_v<SetUpRecord>);

/// The same on all members: made from their ranks and from the last loss among them.
int first_tag(const AllReduceSetting& setting) {
    std::uint64_t last_loss = 0;
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
    for (const int rank : setting.members) {
        mix(static_cast<std::uint64_t>(rank));
        last_loss = std::max(last_loss, setting.comm.network.members.lost_at(rank));
    }
    mix(last_loss);
    hash = (hash ^ (hash >> 33U)) * 18397679294719823053U;  // MurmurHash3's last step
    return static_cast<int>(kFirstTag + 2 * ((hash >> 33U) % kTagPairs));
}

class RecordGather final : public Poller {
public:
    RecordGather(const AllReduceSetting& setting, const SetUpRecord& own)
        : setting_(setting), to_first_(first_tag(setting)), records_(setting.members.size()) {
        records_[static_cast<std::size_t>(setting_.self)] = own;
        missing_ = setting_.others();
        if (!first()) {
            missing_ = {setting_.members[0]};
        }
    }

    bool poll() override {
        if (state_.load() != kRunning) {
            return false;
        }
        return first() ? poll_first() : poll_other();
    }

    void members_changed() override {
        if (state_.load() == kRunning && setting_.lost_member()) {
            end(kBroken);
        }
    }

    /// False when the set-up was given up.
    [[nodiscard]] bool wait() {
        const auto named = setting_.comm.operations.begin("ring set-up", 0, [this] {
            const std::lock_guard lock(mutex_);
            return missing_;
        });
        while (state_.load() == kRunning) {
            futex_sleep(state_, kRunning);
        }
        return state_.load() == kDone;
    }
    [[nodiscard]] std::vector<SetUpRecord> take_records() { return std::move(records_); }

private:
    static constexpr std::uint32_t kRunning = 0;
    static constexpr std::uint32_t kDone = 1;
    static constexpr std::uint32_t kBroken = 2;

    [[nodiscard]] bool first() const { return setting_.self == 0; }

    void receive(std::size_t from, int tag, void* data, std::size_t bytes) {
        check_mpi(MPI_Irecv(data, mpi_count(bytes), MPI_BYTE, setting_.members[from], tag,
                            setting_.comm.network.comms.ring, &requests_.emplace_back()));
    }
    void send(std::size_t to, int tag, const void* data, std::size_t bytes) {
        check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, setting_.members[to], tag,
                            setting_.comm.network.comms.ring, &requests_.emplace_back()));
        setting_.comm.network.bells.ring(setting_.members[to]);
    }

    /// Tests what is in flight; true when all of it has ended.
    bool ended() {
        bool all = true;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int done = requests_[i] == MPI_REQUEST_NULL ? 1 : 0;
            if (done == 0) {
                check_mpi(MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE));
                if (done != 0 && first() && step_ == 1) {
                    const std::lock_guard lock(mutex_);
                    std::erase(missing_, setting_.members[i + 1]);
                }
            }
            all = all && done != 0;
        }
        if (all) {
            requests_.clear();
        }
        return all;
    }

    bool poll_first() {
        const std::size_t bytes = sizeof(SetUpRecord);
        if (step_ == 0) {
            for (std::size_t i = 1; i < records_.size(); ++i) {
                receive(i, to_first_, &records_[i], bytes);
            }
            step_ = 1;
        }
        if (!ended()) {
            return false;
        }
        if (step_ == 1) {
            for (std::size_t i = 1; i < records_.size(); ++i) {
                send(i, to_first_ + 1, records_.data(), bytes * records_.size());
            }
            step_ = 2;
            return true;
        }
        return end(kDone);
    }

    bool poll_other() {
        if (step_ == 0) {
            sent_ = records_[static_cast<std::size_t>(setting_.self)];
            send(0, to_first_, &sent_, sizeof sent_);
            receive(0, to_first_ + 1, records_.data(), sizeof(SetUpRecord) * records_.size());
            step_ = 1;
        }
        return ended() && end(kDone);
    }

    bool end(std::uint32_t state) {
        state_.store(state);
        futex_wake_all(state_);
        return true;
    }

    const AllReduceSetting setting_;
    int to_first_;
    std::vector<SetUpRecord> records_;
    SetUpRecord sent_;
    int step_ = 0;
    std::vector<MPI_Request> requests_;
    std::mutex mutex_;
    std::vector<int> missing_;  ///< world ranks; under the mutex
    std::atomic<std::uint32_t> state_{kRunning};
};

std::string text_of(const SetUpRecord& record) {
    return std::to_string(record.floats) + " floats in buckets of " +
           std::to_string(record.bucket_floats) + " by " +
           std::string(word_of(static_cast<AllReduceAlgorithm>(record.algorithm)));
}

void check_devices(const AllReduceSetting& setting, const std::vector<SetUpRecord>& records) {
    std::optional<std::size_t> failed;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].error[0] != '\0' &&
            (!failed || records[i].seconds < records[*failed].seconds)) {
            failed = i;
        }
    }
    if (failed) {
        throw DeviceError(setting.comm.network.map().describe(setting.members[*failed]) + ": " +
                          records[*failed].error.data());
    }
}

}  // namespace

SetUpRecord first_record(const AllReduceSetting& setting) {
    SetUpRecord record;
    record.collective = setting.comm.last_collective.load() + 1;
    record.floats = setting.buckets.floats;
    record.bucket_floats = setting.buckets.size;
    record.algorithm = static_cast<std::int64_t>(setting.asked);
    return record;
}

std::vector<SetUpRecord> gather_records(const AllReduceSetting& setting, const SetUpRecord& own) {
    if (setting.members.size() == 1) {
        return {own};
    }
    auto gather = std::make_unique<RecordGather>(setting, own);
    setting.comm.progress.add_poller(*gather);
    const bool done = gather->wait();
    setting.comm.progress.remove_poller(*gather);
    if (!done) {
        static_cast<void>(gather.release());  // MPI may still read and write its memory
        setting.fail_broken();
    }
    return gather->take_records();
}

void check_agreement(const AllReduceSetting& setting, const std::vector<SetUpRecord>& records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
        const SetUpRecord& record = records[i];
        if (record.floats != records[0].floats ||
            record.bucket_floats != records[0].bucket_floats ||
            record.algorithm != records[0].algorithm) {
            fail<UsageError>({.where = "AllReduce",
                              .what = "members disagree on size, bucket size or algorithm",
                              .expected = text_of(records[0]),
                              .got = text_of(record) + " on " +
                                     setting.comm.network.map().describe(setting.members[i]),
                              .hint = "the same options on all ranks"});
        }
    }
}

std::vector<SetUpRecord> gather_checked(const AllReduceSetting& setting, const SetUpRecord& own) {
    std::vector<SetUpRecord> records = gather_records(setting, own);
    check_agreement(setting, records);  // first: a member that chooses tells errors of its GPU
    check_devices(setting, records);
    return records;
}

int take_collective(const AllReduceSetting& setting, const std::vector<SetUpRecord>& records) {
    int collective = 0;
    for (const SetUpRecord& record : records) {
        collective = std::max(collective, record.collective);
    }
    setting.comm.last_collective.store(collective);
    return collective;
}

bool share_place(const AllReduceSetting& setting, const std::vector<SetUpRecord>& records,
                 std::size_t one, std::size_t other) {
    const auto node = [&](std::size_t member) {
        const auto rank = static_cast<std::size_t>(setting.members[member]);
        return setting.comm.network.map().ranks[rank].node;
    };
    return records[one].place == records[other].place && node(one) == node(other);
}

}  // namespace cohort
