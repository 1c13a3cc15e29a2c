#include "comm/world/network.hpp"

#include "comm/world/rank_pool.hpp"

namespace cohort {
namespace {

/// Control messages have another one.
constexpr int kSuccessorTag = 2;

}  // namespace

void Network::open(const WorldOptions& options, const LaunchEnv& env, Ports& ports) {
    if (uses_mpi) {
        own_mpi = !options.part;
        if (inherited) {
            ends_mpi = false;
            comms.world = create_group(inherited->parent, inherited->ranks, kSuccessorTag);
        } else if (own_mpi) {
            ends_mpi = start_mpi(env);
            comms.open_world();
        } else {
            const PoolPart& part = *options.part;
            ends = part.ends;
            pacer.share(part.pool->impl().card);
            comms.world = create_group(part.pool->impl().comms.world, part.ranks, part.number);
        }
        mpi_started.store(true);
        roster = meet(options, env, comms, inherited ? inherited->first_rank : -1);
        members.open(map().size());
        const int node = map().ranks[static_cast<std::size_t>(rank())].node;
        bells.open(comms.node, map().on_node(node), rank(), map().size());
        control = std::make_unique<ControlChannel>(comms.world, map().size(), bells, traffic);
        watch = std::make_unique<PeerWatch>(roster, options.lost_after_s, *control, members);
    } else {
        roster = alone(options, env);
        members.open(1);
    }
    transfers = std::make_unique<Transfers>(
        TransferLink{.comm = comms.transfer,
                     .own_rank = rank(),
                     .tag_limit = roster.tag_limit,
                     .chunk_bytes = static_cast<std::uint64_t>(options.chunk_bytes),
                     .ports = ports,
                     .bells = bells,
                     .traffic = traffic,
                     .pacer = pacer,
                     .crosses =
                         [this](int other) {
                             const std::vector<RankInfo>& ranks = map().ranks;
                             return ranks[static_cast<std::size_t>(other)].node !=
                                    ranks[static_cast<std::size_t>(rank())].node;
                         },
                     .heard = [this](int other) { control->heard(other); }});
}

void Network::close() {
    bells.close();
    comms.close();
    int started = 0;
    check_mpi(MPI_Initialized(&started));
    if (started != 0 && own_mpi && ends_mpi) {
        check_mpi(MPI_Finalize());
    }
}

bool Network::speaks(Instant now) const {
    return rank() == 0 ||
           (watch && watch->beside(0) && (!watch->alive(0) || watch->silent(0, now)));
}

void Network::abandon(int other) const {
    if (control) {
        control->abandon(other);
    }
    transfers->abandon(other);
}

}  // namespace cohort
