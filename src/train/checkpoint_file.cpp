#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/data/store.hpp"
#include "cohort/train/snapshot.hpp"

namespace cohort {
namespace {

const StoreFormat kCheckpointFormat{"cohort-checkpoint", 1};
constexpr const char* kSlots = "/optimizer/slots/";
constexpr const char* kScalars = "/optimizer/scalars/";

/// Whole numbers and seconds of a snapshot by attribute name; one list for reading and writing.
template <class Snapshot>
auto integer_fields(Snapshot& s) {
    return std::map<std::string, decltype(&s.metrics_bytes)>{
        {"samples_applied", &s.progress.samples_applied},
        {"updates", &s.progress.updates},
        {"dropped_in_a_row", &s.progress.dropped_in_a_row},
        {"batches_dropped", &s.progress.batches_dropped},
        {"evaluated_at", &s.progress.evaluated_at},
        {"leased", &s.accounts.leased},
        {"applied", &s.accounts.applied},
        {"returned_non_finite", &s.accounts.returned_non_finite},
        {"returned_stop", &s.accounts.returned_stop},
        {"outstanding", &s.accounts.outstanding},
        {"metrics_bytes", &s.metrics_bytes},
    };
}

template <class Snapshot>
auto seconds_fields(Snapshot& s) {
    return std::map<std::string, decltype(&s.progress.train_seconds)>{
        {"train_seconds", &s.progress.train_seconds},
        {"wall_seconds", &s.progress.wall_seconds},
        {"cpu_seconds", &s.progress.cpu_seconds},
    };
}

template <class T>
void put_if_any(StoreWriter& writer, const std::string& name, const std::vector<T>& values) {
    if (!values.empty()) {
        writer.put(name, values);
    }
}

template <class T>
std::vector<T> get_if_any(const StoreReader& reader, const std::string& name) {
    return reader.contains(name) ? reader.get<T>(name) : std::vector<T>();
}

void check_identity(const StoreReader& reader, const TrainSnapshot& wanted) {
    for (const auto& [name, value] : wanted.identity) {
        const std::string found = reader.has_attribute("/identity", name)
                                      ? reader.attribute<std::string>("/identity", name)
                                      : "nothing";
        if (found != value) {
            fail<FileError>({.where = reader.path(),
                             .what = "belongs to another run: " + name + " differs",
                             .expected = value,
                             .got = found,
                             .hint = "the options of that run, or another --out"});
        }
    }
}

}  // namespace

void write_checkpoint(const std::string& path, const TrainSnapshot& snapshot, Hdf5Thread& thread) {
    StoreWriter writer(path, kCheckpointFormat, thread);
    for (const auto& [name, value] : snapshot.identity) {
        writer.set("/identity", name, value);
    }
    for (const auto& [name, value] : integer_fields(snapshot)) {
        writer.set("/progress", name, *value);
    }
    for (const auto& [name, value] : seconds_fields(snapshot)) {
        writer.set("/progress", name, *value);
    }
    if (snapshot.progress.tta_seconds) {
        writer.set("/progress", "tta_seconds", *snapshot.progress.tta_seconds);
    }
    put_if_any(writer, "/parameters", snapshot.parameters);
    put_if_any(writer, "/state", snapshot.state);
    put_if_any(writer, "/leases", snapshot.lease_state);
    put_if_any(writer, "/recent_drops", snapshot.progress.recent_drops);
    for (const auto& [name, values] : snapshot.optimizer_slots) {
        put_if_any(writer, kSlots + name, values);
    }
    for (const auto& [name, value] : snapshot.optimizer_scalars) {
        writer.put(kScalars + name, std::vector<double>{value});
    }
    writer.commit();
}

TrainSnapshot read_checkpoint(const std::string& path,
                              const std::vector<std::pair<std::string, std::string>>& identity,
                              Hdf5Thread& thread) {
    const StoreReader reader(path, thread);
    reader.require_format(kCheckpointFormat);
    TrainSnapshot snapshot;
    snapshot.identity = identity;
    check_identity(reader, snapshot);
    for (const auto& [name, value] : integer_fields(snapshot)) {
        *value = reader.attribute<std::int64_t>("/progress", name);
    }
    for (const auto& [name, value] : seconds_fields(snapshot)) {
        *value = reader.attribute<double>("/progress", name);
    }
    if (reader.has_attribute("/progress", "tta_seconds")) {
        snapshot.progress.tta_seconds = reader.attribute<double>("/progress", "tta_seconds");
    }
    snapshot.parameters = get_if_any<float>(reader, "/parameters");
    snapshot.state = get_if_any<float>(reader, "/state");
    snapshot.progress.recent_drops = get_if_any<std::int64_t>(reader, "/recent_drops");
    snapshot.lease_state = get_if_any<std::int64_t>(reader, "/leases");
    for (const std::string& name : reader.names()) {
        if (name.starts_with(kSlots)) {
            snapshot.optimizer_slots.emplace_back(name.substr(std::string(kSlots).size()),
                                                  reader.get<float>(name));
        } else if (name.starts_with(kScalars)) {
            snapshot.optimizer_scalars.emplace_back(name.substr(std::string(kScalars).size()),
                                                    reader.get<double>(name).at(0));
        }
    }
    return snapshot;
}

std::string checkpoint_path(const std::string& folder, std::int64_t samples_applied) {
    return fmt::format("{}/step-{:012}.h5", folder, samples_applied);
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("step-") && name.ends_with(".h5")) {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.rbegin(), paths.rend());
    return paths;
}

void prune_checkpoints(const std::string& written, int keep) {
    const std::filesystem::path newest(written);
    int kept = 0;
    for (const std::string& path : list_checkpoints(newest.parent_path().string())) {
        if (std::filesystem::path(path).filename() > newest.filename() || kept++ < keep) {
            continue;
        }
        std::error_code error;
        if (!std::filesystem::remove(path, error) && error) {
            fail<FileError>({.where = path,
                             .what = "an old checkpoint cannot be deleted",
                             .got = error.message()});
        }
    }
}

}  // namespace cohort
