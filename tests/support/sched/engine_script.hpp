#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/sched/update_engine.hpp"

namespace cohort::test {

inline std::string to_text(ReturnReason reason) {
    constexpr const char* kNames[] = {"dropped", "non-finite", "interrupted",
                                      "lost",    "void",       "stop"};
    return kNames[static_cast<std::size_t>(reason)];
}

/// An effect as a line: "fire 3: 0 2 | go 0 2", "go 1 @3", "refuse 1 dropped", "return 1 dropped",
/// "interrupt 1 @3". Numbers after @ and fire are versions, the others workers.
inline std::string to_text(const Effect& effect) {
    if (const auto* fire = std::get_if<Fire>(&effect)) {
        std::string line = fmt::format("fire {}:", fire->version);
        for (const FiredPush& push : fire->pushes) {
            line += fmt::format(" {}", push.ticket.id.worker);
        }
        line += " | go";
        for (const Fire::Release& release : fire->releases) {
            line += fmt::format(" {}", release.worker);
        }
        return line;
    }
    if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
        return fmt::format("go {} @{}", release->worker, release->version);
    }
    if (const auto* refuse = std::get_if<Refuse>(&effect)) {
        return fmt::format("refuse {} {}", refuse->push.worker, to_text(refuse->reason));
    }
    if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
        return fmt::format("interrupt {} @{}", interrupt->worker, interrupt->version);
    }
    const auto& back = std::get<ReturnLease>(effect);
    return fmt::format("return {} {}", back.worker, to_text(back.reason));
}

/// Workers and coordinator around an engine, by hand: `pushes(2)` is worker 2 finishing its batch.
/// Every worker has a lease of `batch` samples ahead of its use, as long as it is not told idle;
/// a push says the version that the worker was released with before it.
class EngineScript {
public:
    using Lines = std::vector<std::string>;

    EngineScript(SyncPlan plan, int workers, std::int64_t batch = 8)
        : engine({.workers = workers, .reference_batch = workers * batch}, std::move(plan)),
          batch_(batch),
          states_(static_cast<std::size_t>(workers)) {
        for (int worker = 0; worker < workers; ++worker) {
            lease(worker);
        }
    }

    Lines pushes(int worker) { return carry_out(engine.push(ticket(worker))); }
    /// The same for several workers, one after the other.
    Lines pushes(const std::vector<int>& order) {
        Lines lines;
        for (const int worker : order) {
            const Lines more = pushes(worker);
            lines.insert(lines.end(), more.begin(), more.end());
        }
        return lines;
    }
    /// The last batch of a worker: nobody waits for it afterwards.
    Lines pushes_last(int worker) {
        Lines lines = carry_out(engine.idle(worker));
        state(worker).ends = true;
        const Lines more = pushes(worker);
        lines.insert(lines.end(), more.begin(), more.end());
        return lines;
    }
    Lines resumes(int worker) {
        state(worker).ends = false;
        Lines lines = carry_out(engine.resumed(worker));
        lease(worker);
        return lines;
    }
    Lines loses(int worker) {
        Lines lines = carry_out(engine.lost(worker));
        state(worker).leases.clear();
        return lines;
    }
    Lines joins(int worker) {
        state(worker).sequence = 0;
        Lines lines = carry_out(engine.joined(worker));
        lease(worker);
        return lines;
    }
    Lines installs(SyncPlan plan) { return carry_out(engine.install(std::move(plan))); }
    Lines carry_out(const std::vector<Effect>& effects);

    /// What the worker would push now.
    PushTicket ticket(int worker) {
        State& s = state(worker);
        if (s.leases.empty()) {
            throw std::logic_error(fmt::format("worker {} has no lease", worker));
        }
        PushTicket ticket;
        ticket.id = {worker, engine.incarnation(worker), ++s.sequence};
        ticket.lease = s.leases.front();
        ticket.version = s.version;
        ticket.samples = batch_;
        ticket.work = engine.plan().work;
        s.leases.pop_front();
        return ticket;
    }

    UpdateEngine engine;
    std::vector<Fire> fires;                       ///< all so far
    std::function<void(const Effect&)> on_effect;  ///< called for each, in order

private:
    struct State {
        std::deque<std::uint64_t> leases;
        std::int64_t version = 0;
        std::uint64_t sequence = 0;
        bool ends = false;
    };

    State& state(int worker) { return states_.at(static_cast<std::size_t>(worker)); }
    void lease(int worker) {
        state(worker).leases.push_back(++next_lease_);
        engine.leased(worker, next_lease_, batch_);
    }
    void start(int worker, std::int64_t version) {
        state(worker).version = version;
        if (!state(worker).ends && state(worker).leases.empty()) {
            lease(worker);
        }
    }

    std::int64_t batch_;
    std::vector<State> states_;
    std::uint64_t next_lease_ = 0;
};

inline EngineScript::Lines EngineScript::carry_out(const std::vector<Effect>& effects) {
    Lines lines;
    for (const Effect& effect : effects) {
        lines.push_back(to_text(effect));
        if (on_effect) {
            on_effect(effect);
        }
        if (const auto* back = std::get_if<ReturnLease>(&effect)) {
            std::erase(state(back->worker).leases, back->lease);
        }
    }
    for (const Effect& effect : effects) {
        if (const auto* fire = std::get_if<Fire>(&effect)) {
            fires.push_back(*fire);
            for (const Fire::Release& release : fire->releases) {
                start(release.worker, fire->version);
            }
        } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
            if (engine.live(one->worker) && state(one->worker).sequence > 0) {
                start(one->worker, one->version);
            } else {
                state(one->worker).version = one->version;
            }
        } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
            start(interrupt->worker, interrupt->version);
        }
    }
    return lines;
}

}  // namespace cohort::test
