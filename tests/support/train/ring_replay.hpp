#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "layers/optim/look_ahead.hpp"
#include "support/train/ring_job.hpp"

namespace cohort::test {

/// One process that does what the job's rounds did: micro-batches on the parameters that they were
/// computed on, weighted, riders' added to their parents', summed in ring order.
struct RingReplay : LoneReplica {
    explicit RingReplay(RingJob& ring_job)
        : LoneReplica(ring_job.job.graph),
          of(ring_job),
          optimizer(make_optimizer(of.job.optimizer, of.job.graph.parameters(), 0,
                                   of.job.graph.parameters().total(), *device, replica.stream())) {
        replica.initialise(of.job.options.seed);
        keep();
    }

    /// Parameters, then state, after all updates.
    std::vector<float> run() {
        auto succession = of.books.successions.begin();
        for (std::size_t i = 0; i < of.books.updates.size(); ++i) {
            for (; succession != of.books.successions.end() && succession->after == i;
                 ++succession) {
                succeed(*succession, round_of(of.books.updates[i]).members);
            }
            apply(round_of(of.books.updates[i]), of.books.updates[i]);
        }
        return versions.back();
    }

private:
    /// A worker goes on alone, from what it held then, with the newest state of the optimizer that
    /// a live worker has: of no update where all of them have always been riders.
    void succeed(const Succession& succession, const std::vector<RoundMember>& members) {
        ASSERT_EQ(members.size(), 1U);
        const auto number_after = [&succession](const std::string& words) {
            const std::size_t at = succession.why.find(words);
            if (at == std::string::npos) {
                throw std::runtime_error("no \"" + words + "\" in: " + succession.why);
            }
            return std::stoll(succession.why.substr(at + words.size()));
        };
        const std::int64_t version = number_after("the parameters of update ");  // or older ones
        const auto held_then = releases.find({members.front().worker, version});
        versions.back() = held_then != releases.end()
                              ? held_then->second
                              : versions.at(static_cast<std::size_t>(version));
        held.clear();
        std::erase_if(releases, [&succession](const auto& one) {
            return one.first.second == static_cast<std::int64_t>(succession.after);
        });
        states.back() =
            states.at(static_cast<std::size_t>(number_after("the optimizer's state of update ")));
        const auto& [slots, scalars] = states.back();
        const std::vector<OptimizerSlot> now = optimizer->slots();
        for (std::size_t i = 0; i < now.size(); ++i) {
            std::ranges::copy(slots[i], now[i].values.begin());
        }
        for (const OptimizerScalar& scalar : scalars) {
            optimizer->set_scalar(scalar.name, scalar.value);
        }
    }
    void keep() {
        std::vector<std::vector<float>> slots;
        for (const OptimizerSlot& slot : optimizer->slots()) {
            slots.emplace_back(slot.values.begin(), slot.values.end());
        }
        states.emplace_back(std::move(slots), optimizer->scalars());
        std::vector<float> all(replica.parameters().begin(), replica.parameters().end());
        all.insert(all.end(), replica.state().begin(), replica.state().end());
        versions.push_back(std::move(all));
    }
    /// The grant whose leases the update has applied.
    [[nodiscard]] const RoundOrder& round_of(const AppliedUpdate& update) const {
        const std::set<std::uint64_t> leases(update.leases.begin(), update.leases.end());
        const auto& rounds = of.messenger.rounds;  // the last one: others were void or skipped
        for (auto one = rounds.rbegin(); one != rounds.rend(); ++one) {
            const RoundOrder& round = one->second;
            std::set<std::uint64_t> listed;
            for (const RoundMember& member : round.members) {
                if (member.lease != 0) {
                    listed.insert(member.lease);
                }
                for (const RiderPush& rider : member.riders) {
                    listed.insert(lease_of(rider.push));
                }
            }
            if (listed == leases) {
                return round;
            }
        }
        throw std::runtime_error("an update without a grant");
    }
    [[nodiscard]] std::uint64_t lease_of(const PushId& push) const {
        for (const auto& [lease, report] : of.reports) {
            if (report.ticket.id == push) {
                return lease;
            }
        }
        throw std::runtime_error("a push without a ticket");
    }
    void apply(const RoundOrder& round, const AppliedUpdate& update) {
        std::int64_t all = 0;
        for (const RoundMember& member : round.members) {
            all += member.all_samples();
        }
        std::vector<float> sum;
        for (const RoundMember& member : round.members) {
            std::vector<float> mine(versions.front().size());
            if (member.lease != 0) {
                add(mine, member.lease, versions.back(), member.samples, all);
            }
            for (const RiderPush& rider : member.riders) {
                const std::uint64_t lease = lease_of(rider.push);
                add(mine, lease, held_by(of.reports.at(lease).ticket), rider.samples, all);
            }
            if (sum.empty()) {
                sum = std::move(mine);
                continue;
            }
            for (std::size_t i = 0; i < sum.size(); ++i) {
                sum[i] += mine[i];
            }
        }
        use(versions.back());
        const std::span<const float> gradient =
            std::span<const float>(sum).first(replica.parameters().size());
        optimizer->update(replica.parameters(), gradient, update.fraction, update.learning_rate);
        fold_batch_statistics(replica.state(), std::span<const float>(sum).subspan(gradient.size()),
                              0.1, update.fraction);
        keep();
        for (const RoundMember& member : round.members) {
            for (const RiderPush& rider : member.riders) {
                release(rider, update);
            }
        }
    }
    /// What a rider goes on with.
    void release(const RiderPush& rider, const AppliedUpdate& update) {
        std::vector<float> values = versions.back();
        const std::span<float> theta = std::span(values).first(replica.parameters().size());
        look_ahead(theta, optimizer->look_ahead(), update.learning_rate, rider.lag, theta);
        const auto version = static_cast<std::int64_t>(versions.size()) - 1;
        held[rider.push.worker] = {version, values};
        releases[{rider.push.worker, version}] = std::move(values);
    }
    [[nodiscard]] const std::vector<float>& held_by(const PushTicket& ticket) const {
        const auto found = held.find(ticket.id.worker);
        return found != held.end() && found->second.first == ticket.version
                   ? found->second.second
                   : versions.at(static_cast<std::size_t>(ticket.version));
    }
    void use(const std::vector<float>& values) {
        const auto parameters = static_cast<std::ptrdiff_t>(replica.parameters().size());
        std::copy(values.begin(), values.begin() + parameters, replica.parameters().begin());
        std::copy(values.begin() + parameters, values.end(), replica.state().begin());
    }
    void add(std::vector<float>& to, std::uint64_t lease, const std::vector<float>& on,
             std::int64_t samples, std::int64_t all) {
        use(on);
        const LeaseOrder& order = of.messenger.leases.at(lease);
        replica.train_step(view_of(of.batch(order.position, order.count, order.epoch)),
                           of.job.options.seed);
        const auto weight =
            static_cast<float>(static_cast<double>(samples) / static_cast<double>(all));
        std::vector<float> from(replica.gradients().begin(), replica.gradients().end());
        from.insert(from.end(), replica.batch_state().begin(), replica.batch_state().end());
        for (std::size_t i = 0; i < to.size(); ++i) {
            const volatile float product = weight * from[i];  // rounded, never fused
            to[i] += product;
        }
    }

public:
    RingJob& of;
    std::unique_ptr<Optimizer> optimizer;
    std::vector<std::vector<float>> versions;
    /// The optimizer's after each of them.
    std::vector<std::pair<std::vector<std::vector<float>>, std::vector<OptimizerScalar>>> states;
    /// By rider: version of the parameters that it got last, and these.
    std::map<int, std::pair<std::int64_t, std::vector<float>>> held;
    /// What riders got, by rider and version.
    std::map<std::pair<int, std::int64_t>, std::vector<float>> releases;
};

/// Every member holds what one process makes of the same rounds; -0 and +0 are one value.
inline void expect_replayed(RingJob& job, const std::vector<int>& members) {
    const std::vector<float> wanted = RingReplay(job).run();
    for (const int member : members) {
        const std::vector<float> held = job.gather(member);
        ASSERT_EQ(held.size(), wanted.size());
        std::size_t different = 0;
        for (std::size_t i = 0; i < held.size(); ++i) {
            different += held[i] == wanted[i] ? 0 : 1;
        }
        EXPECT_EQ(different, 0U) << "worker " << member;
    }
}

/// Every sample was applied exactly once.
inline void expect_accounts(RingJob& job, std::int64_t samples) {
    job.books.leases().return_all();
    const SampleAccounts accounts = job.books.leases().accounts();
    EXPECT_EQ(accounts.applied, samples);
    EXPECT_EQ(accounts.outstanding, 0);
    std::int64_t undone = 0;
    std::vector<const AppliedUpdate*> kept;
    auto succession = job.books.successions.begin();
    for (std::size_t i = 0; i <= job.books.updates.size(); ++i) {
        for (; succession != job.books.successions.end() && succession->after == i; ++succession) {
            kept.resize(kept.size() - static_cast<std::size_t>(succession->undone));
            undone += succession->samples;
        }
        if (i < job.books.updates.size()) {
            kept.push_back(&job.books.updates[i]);
        }
    }
    EXPECT_EQ(job.books.engine().accounts().applied, samples + undone);
    EXPECT_EQ(job.books.applied(), samples);
    std::set<std::pair<std::uint32_t, std::int64_t>> positions;
    for (const AppliedUpdate* update : kept) {
        for (const std::uint64_t lease : update->leases) {
            const LeaseOrder& order = job.messenger.leases.at(lease);
            for (std::int64_t i = 0; i < order.count; ++i) {
                EXPECT_TRUE(positions.insert({order.epoch, order.position + i}).second);
            }
        }
    }
    EXPECT_EQ(positions.size(), static_cast<std::size_t>(samples));
}

}  // namespace cohort::test
