// All members' records at all members: they go to the first member, which sends them all to
// everybody. The communication thread moves them step by step, so that a member that never comes
// is named, and nothing else of this rank has to wait for it. If a member is lost meanwhile, the
// others give up; what is still under way is left to itself.
#include "comm/allreduce/ring_set_up.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "comm/allreduce/ring_exchange.hpp"
#include "comm/allreduce/ring_futex.hpp"
#include "comm/base/communicators.hpp"

namespace cohort {
namespace {

// Tags on the ring communicator: this and the next. Exchanges of one member set are made one after
// the other, and messages between two ranks keep their order. A set-up that was given up leaves
// messages behind: none with the tag of a later one, since a member was lost in between.
constexpr std::uint64_t kFirstTag = std::uint64_t{1} << 30;
constexpr std::uint64_t kTagPairs = std::uint64_t{1} << 29;
static_assert(kFirstTag + 2 * kTagPairs - 1 <= static_cast<std::uint64_t>(INT_MAX));

/// The same on all members: of who they are, and of the last loss among them.
int first_tag(const RingSetting& setting) {
    std::uint64_t last_loss = 0;
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
    for (const int rank : setting.members) {
        mix(static_cast<std::uint64_t>(rank));
        last_loss = std::max(last_loss, setting.thread.members().lost_at(rank));
    }
    mix(last_loss);
    hash = (hash ^ (hash >> 33U)) * 18397679294719823053U;  // MurmurHash3's last step
    return static_cast<int>(kFirstTag + 2 * ((hash >> 33U) % kTagPairs));
}

static_assert(std::is_trivially_copyable_v<SetUpRecord>);

class RecordGather final : public Poller {
public:
    RecordGather(const RingSetting& setting, const SetUpRecord& own)
        : setting_(setting),
          thread_(setting.thread),
          members_(setting.members),
          self_(setting.self),
          to_first_(first_tag(setting)),
          records_(members_.size()) {
        records_[static_cast<std::size_t>(self_)] = own;
        for (std::size_t i = 1; i < members_.size(); ++i) {
            missing_.push_back(self_ == 0 ? members_[i] : members_[0]);
        }
        missing_.resize(self_ == 0 ? missing_.size() : 1);
    }

    bool poll() override {
        if (state_.load() != kRunning) {
            return false;
        }
        return self_ == 0 ? poll_first() : poll_other();
    }

    void members_changed() override {
        if (state_.load() == kRunning && setting_.lost_member()) {
            end(kBroken);
        }
    }

    /// False when it was given up.
    [[nodiscard]] bool wait() {
        const auto named = thread_.operations().begin("ring set-up", 0, [this] {
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

    [[nodiscard]] MPI_Comm comm() const { return thread_.communicators().ring; }

    void receive(std::size_t from, int tag, void* data, std::size_t bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(
            MPI_Irecv(data, mpi_count(bytes), MPI_BYTE, members_[from], tag, comm(), &request));
        requests_.push_back(request);
    }
    void send(std::size_t to, int tag, const void* data, std::size_t bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, members_[to], tag, comm(), &request));
        requests_.push_back(request);
        thread_.wake(members_[to]);
    }

    /// Tests what is under way; true when all has ended.
    bool ended() {
        bool all = true;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int done = requests_[i] == MPI_REQUEST_NULL ? 1 : 0;
            if (done == 0) {
                check_mpi(MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE));
                if (done != 0 && self_ == 0 && step_ == 1) {
                    const std::lock_guard lock(mutex_);
                    std::erase(missing_, members_[i + 1]);
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
            for (std::size_t i = 1; i < members_.size(); ++i) {
                receive(i, to_first_, &records_[i], bytes);
            }
            step_ = 1;
        }
        if (!ended()) {
            return false;
        }
        if (step_ == 1) {
            for (std::size_t i = 1; i < members_.size(); ++i) {
                send(i, to_first_ + 1, records_.data(), bytes * records_.size());
            }
            step_ = 2;
            return true;
        }
        return end(kDone);
    }

    bool poll_other() {
        if (step_ == 0) {
            sent_ = records_[static_cast<std::size_t>(self_)];
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

    const RingSetting setting_;
    CommThread& thread_;
    const std::vector<int>& members_;
    int self_;
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
           std::string(to_text(static_cast<AllReduceAlgorithm>(record.algorithm)));
}

}  // namespace

void SetUpRecord::set_error(const char* text) noexcept {
    std::strncpy(error.data(), text, error.size() - 1);
}

void SetUpRecord::set_id(std::string_view bytes) noexcept {
    bytes.copy(id.data(), id.size());
}

void SetUpRecord::set_place(std::string_view text) noexcept {
    text.copy(place.data(), place.size() - 1);
}

std::vector<SetUpRecord> gather_records(const RingSetting& setting, const SetUpRecord& own) {
    if (setting.members.size() == 1) {
        return {own};
    }
    auto gather = std::make_unique<RecordGather>(setting, own);
    setting.thread.add_poller(*gather);
    setting.thread.wake();
    const bool done = gather->wait();
    setting.thread.remove_poller(*gather);
    if (!done) {
        static_cast<void>(gather.release());  // the library still has a hand on it
        setting.fail_broken();
    }
    return gather->take_records();
}

bool share_place(const RingSetting& setting, const std::vector<SetUpRecord>& records,
                 std::size_t one, std::size_t other) {
    const auto node = [&](std::size_t member) {
        const auto rank = static_cast<std::size_t>(setting.members[member]);
        return setting.thread.map().ranks[rank].node;
    };
    return records[one].place == records[other].place && node(one) == node(other);
}

void RingSetting::fail_broken() const {
    const std::optional<int> lost = lost_member();
    fail<RingBroken>({.where = "RingExchange",
                      .what = "a member is lost",
                      .got = lost ? thread.map().describe(*lost) : "one that has come back since"});
}

void check_records(const RankMap& map, const std::vector<int>& members,
                   const std::vector<SetUpRecord>& records) {
    std::optional<std::size_t> failed;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].error[0] != '\0' &&
            (!failed || records[i].seconds < records[*failed].seconds)) {
            failed = i;
        }
    }
    if (failed) {
        throw DeviceError(map.describe(members[*failed]) + ": " + records[*failed].error.data());
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
        const SetUpRecord& record = records[i];
        if (record.floats != records[0].floats ||
            record.bucket_floats != records[0].bucket_floats ||
            record.algorithm != records[0].algorithm) {
            fail<UsageError>({.where = "RingExchange",
                              .what = "members disagree on size, bucket size or algorithm",
                              .expected = text_of(records[0]),
                              .got = text_of(record) + " on " + map.describe(members[i]),
                              .hint = "the same options on all ranks"});
        }
    }
}

}  // namespace cohort
