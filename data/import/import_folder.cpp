// Folders of images: a folder per class, or one per class in train and one in test.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/core/rng.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

#include "data/import/image_file.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace cohort {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayout =
    "FOLDER/CLASS/IMAGE, or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE";

std::string class_folder(const std::string& image) {
    return fs::path(image).parent_path().filename().string();
}

/// Folders between the given one and the image: 1 or 2.
std::ptrdiff_t depth_of(const std::string& root, const std::string& image) {
    const fs::path inside = fs::path(image).lexically_relative(root);
    return std::distance(inside.begin(), inside.end()) - 1;
}

std::vector<std::string> classes_of(const std::vector<ImportFile>& images) {
    std::set<std::string> train;
    std::set<std::string> test;
    for (const ImportFile& image : images) {
        (image.group == DatasetGroup::kTrain ? train : test).insert(class_folder(image.path));
    }
    for (const std::string& name : test) {
        require_file(train.contains(name), name, "a class of test images without train images",
                     fmt::format("{}", fmt::join(train, ", ")), name);
    }
    return {train.begin(), train.end()};
}

/// What all images together are stored as.
struct CommonForm {
    std::int64_t channels = 1;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t turned = 0;  ///< images with an EXIF orientation
};

CommonForm common_form(const std::vector<ImportFile>& images, const ImportOptions& options) {
    CommonForm form;
    for (const ImportFile& image : images) {
        const ImageFacts facts = image_facts(image.path);
        form.channels = facts.colour ? 3 : form.channels;
        form.turned += facts.turned ? 1 : 0;
        if (options.size) {
            std::tie(form.height, form.width) = *options.size;
            continue;
        }
        const bool first = form.height == 0;
        require_file(first || (facts.height == form.height && facts.width == form.width),
                     image.path, "the image has another size than the first",
                     fmt::format("{}x{}", form.height, form.width),
                     fmt::format("{}x{}", facts.height, facts.width), "--size HxW");
        form.height = facts.height;
        form.width = facts.width;
    }
    return form;
}

/// In an order drawn from the seed: training shuffles within some chunks only.
void shuffle(std::vector<ImportFile>& images, std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kImport);
    for (std::size_t left = images.size(); left > 1; --left) {
        std::swap(images[left - 1], images[rng.next_below(static_cast<std::uint32_t>(left))]);
    }
}

/// What lies below a folder, hidden files left out.
struct FolderContents {
    std::vector<std::string> images;   ///< PNG and JPEG, by name or by first bytes
    std::vector<std::string> foreign;  ///< images of other formats
    std::vector<std::string> others;
    std::vector<std::string> folders;
};

FolderContents contents_of(const std::string& root) {
    FolderContents found;
    std::error_code error;
    const auto options = fs::directory_options::follow_directory_symlink;
    for (fs::recursive_directory_iterator at(root, options, error), end; !error && at != end;
         at.increment(error)) {
        std::error_code unknown;
        const std::string path = at->path().string();
        const bool folder = at->is_directory(unknown);
        if (at->path().filename().string().starts_with('.')) {
            if (folder) {
                at.disable_recursion_pending();
            }
        } else if (folder) {
            found.folders.push_back(path);
        } else if (const bool regular = at->is_regular_file(unknown);
                   named_image(path) || (regular && begins_as_image(path))) {
            found.images.push_back(path);
        } else if (regular && !other_image_format(path).empty()) {
            found.foreign.push_back(path);
        } else {
            found.others.push_back(path);
        }
    }
    require_file(!error, root, "cannot list the folder", "", error.message());
    std::ranges::sort(found.folders);
    return found;
}

/// Images that cannot be read are missing in their classes, or make them disappear.
void check_none_left_out(const std::string& root, const FolderContents& found) {
    if (found.foreign.empty()) {
        return;
    }
    std::set<std::string> folders;
    for (const std::string& path : found.foreign) {
        folders.insert(fs::path(path).parent_path().lexically_relative(root).string());
    }
    const std::string first = *std::ranges::min_element(found.foreign);
    fail<FileError>(
        {.where = root,
         .what = fmt::format("{} in {} {} no format that can be read",
                             counted(static_cast<std::int64_t>(found.foreign.size()), "image"),
                             fmt::join(folders, ", "), found.foreign.size() == 1 ? "has" : "have"),
         .expected = "PNG or JPEG",
         .got = fmt::format("{}, such as {}", other_image_format(first), first),
         .hint = "converting them first (mogrify -format png FILES), or taking them out"});
}

}  // namespace

std::vector<std::string> list_images(const std::string& root) {
    FolderContents found = contents_of(root);
    check_none_left_out(root, found);
    std::vector<std::string>& images = found.images;
    require_file(!images.empty(), root, "the folder has no images (PNG or JPEG)", kLayout, "");
    if (!found.others.empty()) {
        log_info("{}: passed over {} files that are no images, such as {}", root,
                 found.others.size(), *std::ranges::min_element(found.others));
    }
    std::ranges::sort(images);
    const std::ptrdiff_t depth = depth_of(root, images.front());
    std::set<std::string> with_images;
    for (const std::string& image : images) {
        const std::ptrdiff_t own = depth_of(root, image);
        require_file(own == depth && (own == 1 || own == 2), image,
                     "the image lies at an unexpected place", kLayout, "");
        with_images.insert(fs::path(image).parent_path().string());
    }
    for (const std::string& folder : found.folders) {
        require_file(depth_of(root, folder) + 1 != depth || with_images.contains(folder), folder,
                     "a class without images", "PNG or JPEG files in each folder of a class",
                     "none", "removing the folder");
    }
    return std::move(images);
}

std::string split_folder(const std::string& root, const std::string& image) {
    const fs::path inside = fs::path(image).lexically_relative(root);
    return depth_of(root, image) == 2 ? inside.begin()->string() : "";
}

std::string import_folder(std::vector<ImportFile> images, const ImportOptions& options,
                          ImportSink& sink) {
    const std::vector<std::string> classes = classes_of(images);
    const CommonForm form = common_form(images, options);
    shuffle(images, options.seed);
    const auto each = [&](const auto& use) {
        for (const ImportFile& file : images) {
            const auto found = std::ranges::lower_bound(classes, class_folder(file.path));
            const auto label = static_cast<std::int32_t>(found - classes.begin());
            sink.begin({file, file}, {form.channels, form.height, form.width}, SampleType::kU8,
                       static_cast<std::int64_t>(classes.size()));
            use(file.path, std::span(&label, 1));
        }
    };
    if (sink.counting()) {
        each([&](const std::string& /*path*/, auto label) { sink.append({}, label); });
        sink.draw_split();
    }
    each([&](const std::string& path, auto label) {
        Image image = read_image(path);
        image = form.channels == 3 ? in_colour(std::move(image)) : std::move(image);
        require_file(image.channels == form.channels, path, "the image changed while it was read",
                     "shades of grey", "colours");
        const std::vector<std::uint8_t> sample =
            channels_first(resized(image, form.height, form.width));
        sink.append(std::as_bytes(std::span(sample)), label);
    });
    std::string note =
        fmt::format("{} images, classes {}", images.size(), fmt::join(classes, ", "));
    if (form.turned > 0) {
        note += fmt::format(
            "; {} of them {} an EXIF orientation and {} stored as the pixels lie in the file",
            form.turned, form.turned == 1 ? "has" : "have", form.turned == 1 ? "is" : "are");
    }
    return note;
}

}  // namespace cohort
