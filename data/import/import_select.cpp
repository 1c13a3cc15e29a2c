// Which of the inputs are imported, and as which format.

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"
#include "data/import/zip_member.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <system_error>
#include <utility>

namespace cohort {

namespace {

namespace fs = std::filesystem;

struct Input {
    std::string path;
    std::optional<ImportFormat> format;
};

/// The format that the name promises; nothing for other names.
std::optional<ImportFormat> format_of_name(const std::string& path) {
    static const std::array<std::pair<std::regex, ImportFormat>, 5> names{
        {{std::regex("(data_batch_[0-9]+|test_batch)\\.bin"), ImportFormat::kCifar10},
         {std::regex("(train|test)\\.bin"), ImportFormat::kCifar100},
         {std::regex(".*\\.np[yz]"), ImportFormat::kNpy},
         {std::regex(".*\\.csv"), ImportFormat::kCsv},
         {std::regex(".*idx[1-4]-ubyte"), ImportFormat::kIdx}}};
    const std::string name = plain_name(path);
    const auto* found = std::ranges::find_if(
        names, [&](const auto& each) { return std::regex_match(name, each.first); });
    return found == names.end() ? std::nullopt : std::optional(found->second);
}

/// The format that the contents tell; nothing for other files.
std::optional<ImportFormat> format_of_contents(const std::string& path) {
    InputStream stream(path);
    std::array<std::byte, 8> start{};
    const auto read = std::span(start).first(stream.read_some(start));
    if (looks_like_npy(read)) {
        return ImportFormat::kNpy;
    }
    if (plain_name(path).ends_with(".bin")) {
        const std::uintmax_t bytes = fs::file_size(path);
        const bool batch = has_word(path, std::array<std::string_view, 1>{"batch"});
        if (bytes > 0 && bytes % 3073 == 0 && (bytes % 3074 != 0 || batch)) {
            return ImportFormat::kCifar10;
        }
        if (bytes > 0 && bytes % 3074 == 0) {
            return ImportFormat::kCifar100;
        }
    }
    return looks_like_idx(read) ? std::optional(ImportFormat::kIdx) : std::nullopt;
}

/// Of a file's name, when text is wanted.
bool named_text(const std::string& path) {
    const std::string name = plain_name(path);
    return name.ends_with(".txt") || name.ends_with(".text") || name.ends_with(".tokens");
}

std::optional<ImportFormat> format_of(const std::string& path) {
    const std::optional<ImportFormat> promised = format_of_name(path);
    return promised ? promised : format_of_contents(path);
}

/// Files in the order of their names, hidden ones left out. A link that leads nowhere counts when
/// its name promises data. Of a file and its packed twin (NAME and NAME.gz) the plain one is taken.
std::vector<std::string> list_folder(const std::string& folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        std::error_code unknown;
        const bool usable = at->is_regular_file(unknown) ||
                            (!at->exists(unknown) && format_of_name(at->path().string()));
        if (usable && !at->path().filename().string().starts_with('.')) {
            files.push_back(at->path().string());
        }
    }
    require_file(!error, folder, "cannot list the folder", "", error.message());
    std::ranges::sort(files);
    const std::vector<std::string> all = files;
    std::erase_if(files, [&](const std::string& path) {
        return path.ends_with(".gz") &&
               std::ranges::binary_search(all, path.substr(0, path.size() - 3));
    });
    return files;
}

void check_exists(const std::string& path) {
    std::error_code error;
    require_file(fs::status(path, error).type() != fs::file_type::not_found, path,
                 "no such file or folder", "one that exists", "");
    require_file(!error, path, "cannot be reached", "", error.message());
}

/// The one format of all files that have one; kAuto when there are none.
ImportFormat common_format(const std::vector<Input>& inputs) {
    const Input* first = nullptr;
    for (const Input& input : inputs) {
        if (!input.format) {
            continue;
        }
        first = first == nullptr ? &input : first;
        if (input.format != first->format) {
            fail<UsageError>(
                {.where = "import",
                 .what = fmt::format("several formats: {} is {}, {} is {}", first->path,
                                     word_of(*first->format), input.path, word_of(*input.format)),
                 .hint = "--format"});
        }
    }
    return first == nullptr ? ImportFormat::kAuto : *first->format;
}

/// "README, train.csv (csv)", at most eight names.
std::string names_of(const std::vector<Input>& inputs) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> names;
    for (const Input& input : inputs) {
        std::string name = fs::path(input.path).filename().string();
        names.push_back(input.format ? fmt::format("{} ({})", name, word_of(*input.format)) : name);
    }
    const std::size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    return names.empty() ? "no file"
                         : fmt::format("{}{}", fmt::join(names, ", "),
                                       more == 0 ? "" : fmt::format(" and {} more", more));
}

[[noreturn]] void fail_nothing(const std::string& folder, ImportFormat format,
                               const std::vector<Input>& found) {
    fail<FileError>({.where = folder,
                     .what = "the folder holds nothing to import",
                     .expected = format == ImportFormat::kAuto
                                     ? "IDX, CIFAR binary, NumPy or CSV files"
                                     : fmt::format("{} files", word_of(format)),
                     .got = names_of(found),
                     .hint = format == ImportFormat::kAuto
                                 ? "--format folder when images lie in a folder per class"
                                 : ""});
}

[[noreturn]] void fail_missing(const std::string& folder, const std::vector<std::string>& missing,
                               std::string_view set, std::string_view hint = "") {
    fail<FileError>({.where = folder,
                     .what = fmt::format("{} {} missing", fmt::join(missing, ", "),
                                         missing.size() == 1 ? "is" : "are"),
                     .expected = set,
                     .hint = hint});
}

/// The parts of CIFAR that a folder with one of them must hold; test data may be drawn instead.
void check_cifar(const ImportSelection& selection, const ImportOptions& options) {
    const bool ten = selection.format == ImportFormat::kCifar10;
    const std::string test = ten ? "test_batch.bin" : "test.bin";
    std::vector<std::string> parts{"train.bin"};
    if (ten) {
        parts = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                 "data_batch_5.bin"};
    }
    const std::string set = fmt::format("{} and {}", fmt::join(parts, ", "), test);
    if (options.test_fraction == 0) {
        parts.push_back(test);
    }
    std::set<std::string> present;
    bool by_name = false;
    for (const std::string& path : selection.files) {
        present.insert(plain_name(path));
        by_name = by_name || format_of_name(path) == selection.format;
    }
    std::erase_if(parts, [&](const std::string& part) { return present.contains(part); });
    if (by_name && !parts.empty()) {
        fail_missing(options.inputs.front(), parts, set,
                     "naming the files to import only some of them");
    }
}

/// Every *-images-idx3-ubyte needs its *-labels-idx1-ubyte, and the other way round.
void check_idx(const ImportSelection& selection, const std::string& folder) {
    std::set<std::string> present;
    for (const std::string& path : selection.files) {
        present.insert(plain_name(path));
    }
    for (const std::string& path : selection.files) {
        const std::string name = plain_name(path);
        const std::string partner = idx_partner(name);
        if (!partner.empty() && !present.contains(partner)) {
            fail_missing(folder, {partner}, fmt::format("the partner of {}", name));
        }
    }
}

ImportSelection select_from_folder(const ImportOptions& options) {
    const std::string& folder = options.inputs.front();
    std::vector<Input> inputs;
    for (std::string& path : list_folder(folder)) {
        const bool text = options.format == ImportFormat::kText && named_text(path);
        const auto format = text ? ImportFormat::kText : format_of(path);
        inputs.push_back({std::move(path), format});
    }
    ImportSelection selection{options.format, {}};
    if (options.format == ImportFormat::kAuto) {
        selection.format = common_format(inputs);
    }
    std::vector<Input> others;
    for (const Input& input : inputs) {
        if (input.format == selection.format) {
            selection.files.push_back(input.path);
        } else {
            others.push_back(input);
        }
    }
    if (selection.files.empty()) {
        fail_nothing(folder, options.format, others);
    }
    if (!others.empty()) {
        log_info("{}: passed over {}", folder, names_of(others));
    }
    switch (selection.format) {
        case ImportFormat::kCifar10:
        case ImportFormat::kCifar100: check_cifar(selection, options); break;
        case ImportFormat::kIdx: check_idx(selection, folder); break;
        default: break;
    }
    return selection;
}

/// Files given by name: all of them, of one format.
ImportSelection select_given(const ImportOptions& options) {
    ImportSelection selection{options.format, options.inputs};
    if (options.format != ImportFormat::kAuto) {
        return selection;
    }
    std::vector<Input> inputs;
    for (const std::string& path : options.inputs) {
        inputs.push_back({path, format_of(path)});
        require_file(inputs.back().format.has_value(), path, "unknown format",
                     "IDX, CIFAR binary, NumPy or CSV", "none of them", "--format");
    }
    selection.format = common_format(inputs);
    return selection;
}

/// The arrays of .npz archives in place of the archives.
void open_archives(ImportSelection& selection) {
    std::vector<std::string> files;
    for (const std::string& path : selection.files) {
        if (!plain_name(path).ends_with(".npz")) {
            files.push_back(path);
            continue;
        }
        const std::size_t before = files.size();
        for (const std::string& name : zip_entries(path)) {
            if (name.ends_with(".npy")) {
                files.push_back(fmt::format("{}/{}", path, name));
            }
        }
        require_file(files.size() > before, path, "the archive has no arrays", "numpy.savez", "");
    }
    selection.files = std::move(files);
}

}  // namespace

ImportSelection select_import_files(const ImportOptions& options) {
    for (const std::string& path : options.inputs) {
        check_exists(path);
    }
    std::error_code error;
    const bool folder =
        options.inputs.size() == 1 && fs::is_directory(options.inputs.front(), error);
    if (options.format == ImportFormat::kFolder) {
        require_file(folder, options.inputs.front(), "not a single folder", "a folder of images",
                     "");
        return {options.format, list_images(options.inputs.front())};
    }
    ImportSelection selection = folder ? select_from_folder(options) : select_given(options);
    if (selection.format == ImportFormat::kNpy) {
        open_archives(selection);
    }
    return selection;
}

}  // namespace cohort
