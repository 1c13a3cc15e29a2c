// fleet.json: everything of a fleet's result. One list of fields writes and reads it.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/sim/fleet.hpp"
#include "data/file/text_file.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using FleetJson = nlohmann::ordered_json;

/// The form of the file; another one cannot be read.
constexpr int kFormat = 1;

/// A number that changes with any bit, as text: JSON's numbers have 53 bits.
struct Digest {
    std::uint64_t* value;
};

/// 0 in files of versions that had none.
struct NewerNumber {
    double* value;
};

class JsonWriter {
public:
    explicit JsonWriter(FleetJson& to) : to_(to) {}
    template <class T>
    void operator()(const char* name, const T& value) const {
        to_[name] = value;
    }
    template <class T>
    void operator()(const char* name, const std::optional<T>& value) const {
        to_[name] = value ? FleetJson(*value) : FleetJson(nullptr);
    }
    void operator()(const char* name, const FleetJobState& state) const {
        to_[name] = word_of(state);
    }
    void operator()(const char* name, const NewerNumber& number) const {
        to_[name] = *number.value;
    }
    void operator()(const char* name, const Digest& digest) const {
        to_[name] = fmt::format("{:016x}", *digest.value);
    }

private:
    FleetJson& to_;
};

class JsonReader {
public:
    explicit JsonReader(const FleetJson& from) : from_(from) {}
    template <class T>
    void operator()(const char* name, T& value) const {
        from_.at(name).get_to(value);
    }
    template <class T>
    void operator()(const char* name, std::optional<T>& value) const {
        const auto found = from_.find(name);
        const bool known = found != from_.end() && !found->is_null();
        value = known ? std::optional<T>(found->template get<T>()) : std::nullopt;
    }
    void operator()(const char* name, FleetJobState& state) const {
        state = parse_word<FleetJobState>(from_.at(name).get<std::string>(), name);
    }
    void operator()(const char* name, const NewerNumber& number) const {
        *number.value = from_.value(name, 0.0);
    }
    void operator()(const char* name, const Digest& digest) const {
        const auto text = from_.at(name).get<std::string>();
        constexpr int kHexadecimal = 16;
        std::from_chars(text.data(), text.data() + text.size(), *digest.value, kHexadecimal);
    }

private:
    const FleetJson& from_;
};

template <class Visit>
void job_fields(FleetJobResult& job, const Visit& visit) {
    visit("name", job.name);
    visit("workload", job.workload);
    visit("model", job.model);
    visit("arch", job.arch);
    visit("mode", job.mode);
    visit("workers", job.workers);
    visit("servers", job.servers);
    visit("seed", job.seed);
    visit("target_accuracy", job.target_accuracy);
    visit("target_loss", NewerNumber{&job.target_loss});
    visit("state", job.state);
    visit("error", job.error);
    visit("arrival_s", job.arrival_s);
    visit("start_s", job.start_s);
    visit("end_s", job.end_s);
    visit("target_s", job.target_s);
    visit("worker_nodes", job.worker_nodes);
    visit("server_nodes", job.server_nodes);
    visit("samples", job.samples);
    visit("updates", job.updates);
    visit("switches", job.switches);
    visit("accuracy", job.accuracy);
    visit("busy_s", job.busy_s);
    visit("wait_s", job.wait_s);
    visit("alone_samples_s", job.alone_samples_s);
    visit("grants", job.grants);
    visit("room_taken_s", job.room_taken_s);
    visit("room_given_s", job.room_given_s);
    visit("digest", Digest{&job.digest});
}

template <class Visit>
void use_fields(FleetUsePoint& point, const Visit& visit) {
    visit("time_s", point.time_s);
    visit("devices", point.devices);
    visit("cores", point.cores);
    visit("rx", point.rx);
    visit("tx", point.tx);
}

/// Those that are no lists of records.
template <class Visit>
void fleet_fields(FleetResult& result, const Visit& visit) {
    visit("label", result.label);
    visit("file", result.file);
    visit("settings", result.settings);
    visit("nodes", result.nodes);
    visit("devices_per_node", result.devices_per_node);
    visit("seed", result.seed);
    visit("stopped", result.stopped);
    visit("makespan_s", result.makespan_s);
    visit("events", result.events);
    visit("digest", Digest{&result.digest});
    visit("wall_s", result.wall_s);
    visit("peak_bytes", result.peak_bytes);
}

template <class Visit>
void grant_fields(FleetGrants& grants, const Visit& visit) {
    visit("granted", grants.granted);
    visit("refused", grants.refused);
    visit("returned", grants.returned);
}

template <class Visit>
void grant_fields(FleetGrant& grant, const Visit& visit) {
    visit("job", grant.job);
    visit("from_s", grant.from_s);
    visit("to_s", grant.to_s);
    visit("weight", grant.weight);
    visit("gained_s", grant.gained_s);
    visit("given_s", grant.given_s);
}

template <class Visit>
void refusal_fields(FleetRefusal& refusal, const Visit& visit) {
    visit("job", refusal.job);
    visit("at_s", refusal.at_s);
    visit("from", refusal.from);
    visit("to", refusal.to);
    visit("gain", refusal.gain);
    visit("losses", refusal.losses);
    visit("times", refusal.times);
}

FleetJson distribution_json(const Distribution& values) {
    const auto known = [&values](double value) {
        return values.count > 0 ? FleetJson(value) : FleetJson(nullptr);
    };
    return {{"count", values.count},
            {"mean", known(values.mean)},
            {"median", known(values.median)},
            {"p95", known(values.p95)},
            {"p99", known(values.p99)}};
}

/// For readers of the file; not read back, since it follows from the rest.
FleetJson summary_json(const FleetSummary& summary) {
    return {{"ended", summary.ended},
            {"failed", summary.failed},
            {"missed", summary.missed},
            {"tta_s", distribution_json(summary.tta)},
            {"tta_from_start_s", distribution_json(summary.tta_from_start)},
            {"completion_s", distribution_json(summary.completion)},
            {"slowdown", distribution_json(summary.slowdown)},
            {"devices", summary.devices},
            {"cores", summary.cores},
            {"network", summary.network},
            {"waiting", summary.waiting}};
}

/// What follows from a job's numbers, for readers of the file.
void add_derived(FleetJson& to, const FleetJobResult& job) {
    const JsonWriter write(to);
    const std::optional<double> tta_s = job.tta_s();
    write("completion_s", job.completion_s());
    write("tta_s", tta_s);
    write("tta_from_start_s",
          tta_s ? std::optional(*tta_s - (*job.start_s - job.arrival_s)) : std::nullopt);
    write("missed", job.ended() && job.missed());
    write("slowdown", job.slowdown());
}

FleetResult parse_fleet(const FleetJson& json) {
    FleetResult result;
    fleet_fields(result, JsonReader(json));
    result.real = json.value("real", false);
    if (json.contains("grants")) {
        const FleetJson& grants = json.at("grants");
        grant_fields(result.grants.emplace(), JsonReader(grants));
        for (const FleetJson& from : grants.at("list")) {
            grant_fields(result.grants->list.emplace_back(), JsonReader(from));
        }
        for (const FleetJson& from : grants.value("refused_plans", FleetJson::array())) {
            refusal_fields(result.grants->refused_plans.emplace_back(), JsonReader(from));
        }
    }
    for (const FleetJson& from : json.at("jobs")) {
        job_fields(result.jobs.emplace_back(), JsonReader(from));
    }
    for (const FleetJson& from : json.at("use")) {
        use_fields(result.use.emplace_back(), JsonReader(from));
    }
    return result;
}

/// Whoever draws the result looks up jobs and nodes by their numbers.
/// Errors: FileError naming file, place and key.
void check_numbers(const std::string& file, const FleetResult& result) {
    const auto check = [&](const std::string& place, const char* key, std::int64_t value,
                           std::int64_t least, std::int64_t most) {
        if (value < least || value > most) {
            fail<FileError>({.where = fmt::format("{}, {}{}", file, place, key),
                             .what = "the number is out of range",
                             .expected = fmt::format("{} to {}", least, most),
                             .got = std::to_string(value)});
        }
    };
    check("", "nodes", result.nodes, 1, std::numeric_limits<int>::max());
    check("", "devices_per_node", result.devices_per_node, 1, std::numeric_limits<int>::max());
    const auto jobs = static_cast<std::int64_t>(result.jobs.size());
    for (const FleetJobResult& job : result.jobs) {
        const std::string place = fmt::format("job '{}', ", job.name);
        for (const int node : job.worker_nodes) {
            check(place, "worker_nodes", node, 0, result.nodes - 1);
        }
        for (const int node : job.server_nodes) {
            check(place, "server_nodes", node, 0, result.nodes - 1);
        }
    }
    for (const FleetUsePoint& point : result.use) {
        for (const std::vector<double>* some :
             {&point.devices, &point.cores, &point.rx, &point.tx}) {
            const auto numbers = static_cast<std::int64_t>(some->size());
            if (!result.real || numbers > 0) {  // of real nodes only the devices are known
                check("use, ", "numbers of a point", numbers, result.nodes, result.nodes);
            }
        }
    }
    for (const FleetGrant& grant : result.grants.value_or(FleetGrants()).list) {
        check("grants, ", "job", grant.job, 0, jobs - 1);
        for (const auto& [giver, seconds] : grant.given_s) {
            check("grants, ", "given_s", giver, 0, jobs - 1);
        }
    }
    for (const FleetRefusal& refusal : result.grants.value_or(FleetGrants()).refused_plans) {
        check("refused_plans, ", "job", refusal.job, 0, jobs - 1);
        for (const auto& [giver, loss] : refusal.losses) {
            check("refused_plans, ", "losses", giver, 0, jobs - 1);
        }
    }
}

}  // namespace

void check_fleet_folder(const std::string& folder, bool overwrite) {
    check_output_folder(folder, {kFleetFile}, {});
    const std::string file = (fs::path(folder) / kFleetFile).string();
    std::error_code error;
    if (!overwrite && fs::exists(file, error)) {
        fail<UsageError>({.where = "--out " + folder,
                          .what = "holds the result of another fleet",
                          .got = file,
                          .hint = "--overwrite to replace it, or another folder"});
    }
}

void write_fleet(const std::string& folder, const FleetResult& result) {
    FleetResult all = result;
    FleetJson json{{"format", kFormat}, {"real", result.real}};
    fleet_fields(all, JsonWriter(json));
    if (all.grants) {
        FleetJson& grants = json["grants"] = FleetJson::object();
        grant_fields(*all.grants, JsonWriter(grants));
        FleetJson& list = grants["list"] = FleetJson::array();
        for (FleetGrant& grant : all.grants->list) {
            grant_fields(grant, JsonWriter(list.emplace_back(FleetJson::object())));
        }
        FleetJson& refused = grants["refused_plans"] = FleetJson::array();
        for (FleetRefusal& refusal : all.grants->refused_plans) {
            refusal_fields(refusal, JsonWriter(refused.emplace_back(FleetJson::object())));
        }
    }
    json["summary"] = summary_json(summarise(result));
    FleetJson& jobs = json["jobs"] = FleetJson::array();
    for (FleetJobResult& job : all.jobs) {
        FleetJson& to = jobs.emplace_back(FleetJson::object());
        job_fields(job, JsonWriter(to));
        add_derived(to, job);
    }
    FleetJson& use = json["use"] = FleetJson::array();
    for (FleetUsePoint& point : all.use) {
        use_fields(point, JsonWriter(use.emplace_back(FleetJson::object())));
    }
    make_own_folder(folder, FolderRule::kOwn);
    replace_text_file({(fs::path(folder) / kFleetFile).string(), true, FolderRule::kOwn},
                      json.dump(1, ' ', false, FleetJson::error_handler_t::replace) + "\n");
}

void check_same_fleet(const FleetResult& found, const FleetPlan& plan, bool real,
                      const std::string& file) {
    const auto [was, is] = std::ranges::mismatch(found.settings, plan.settings);
    const bool same_jobs =
        std::ranges::equal(found.jobs, plan.jobs, {}, &FleetJobResult::name, &FleetJob::name);
    if (found.real == real && was == found.settings.end() && is == plan.settings.end() &&
        same_jobs) {
        return;
    }
    const auto text = [](bool on_ranks, const auto& at, const auto& settings) {
        return fmt::format(
            "a {} one, {}", on_ranks ? "real" : "virtual",
            at == settings.end() ? "with its jobs" : fmt::format("{} = {}", at->first, at->second));
    };
    fail<UsageError>({.where = file,
                      .what = "the result of another fleet",
                      .expected = text(real, is, plan.settings),
                      .got = text(found.real, was, found.settings),
                      .hint = "another --out, or --overwrite in place of --resume"});
}

FleetResult read_fleet_result(const std::string& file) {
    const std::string text = read_text_file(file);
    try {
        const FleetJson json = FleetJson::parse(text);
        if (json.at("format").get<int>() != kFormat) {
            fail<FileError>({.where = file,
                             .what = "written by another version of the program",
                             .expected = fmt::format("format {}", kFormat),
                             .got = json.at("format").dump()});
        }
        FleetResult result = parse_fleet(json);
        check_numbers(file, result);
        return result;
    } catch (const nlohmann::json::exception& error) {
        fail<FileError>({.where = file,
                         .what = "not the result of a fleet",
                         .expected = kFleetFile,
                         .got = error.what()});
    } catch (const UsageError& error) {  // a word that is none
        fail<FileError>({.where = file, .what = error.what()});
    }
}

}  // namespace cohort
