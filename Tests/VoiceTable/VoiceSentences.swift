// What the voices say in the table: names, numbers, times, dates, money and questions, as an agent
// says them. None of these sentences was looked at while the rules of the natural voice were made.

/// The sentences of the table.
enum VoiceSentences {
    static let all = [
        "Good afternoon, Mister Okafor, your taxi will arrive at 4:15.",
        "Would you rather have the window seat or the aisle?",
        "The museum opened on March 12, 1887, and it closes at 6 on Sundays.",
        "Please write down this number: 5 5 0, 1 9 3, 8 7 2 4.",
        "Ingrid Halvorsen asked whether the meeting could be moved to Thursday.",
        "That comes to $64.90, including the delivery.",
        "Do you remember the name of the pharmacy near the station?",
        "The train from Birmingham is running about 25 minutes late.",
        "I'm afraid the doctor isn't available before the 3rd of June.",
        "Rebecca Castellano lives at 219 Maple Avenue, on the second floor.",
        "If it rains tomorrow, we'll hold the ceremony in the gymnasium instead.",
        "How many kilometers is it from Warsaw to Vilnius?",
        "Your package weighs 12.5 kilograms, so it needs a larger box.",
        "Could you spell your surname for me, please?",
        "The temperature will drop to minus 8 degrees during the night.",
        "Professor Nakamura's lecture about volcanoes begins at half past nine.",
        "We have only three umbrellas left, and one of them is broken.",
        "Who should I call when the alarm goes off, you or Mister Delgado?",
        "The bakery sells 140 loaves of bread and 60 chocolate croissants every morning.",
        "Thank you for waiting; your reservation for July 21 is confirmed.",
    ]
}
